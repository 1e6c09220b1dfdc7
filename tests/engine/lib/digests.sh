# shellcheck shell=bash disable=SC2034  # what is set here is used by windows.sh
# The promise of weightpager for the Python engines: the exact bytes that they compute.

# shellcheck source=tests/engine/lib/windows.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/windows.sh"
# shellcheck source=tools/scripts/lib/python_models.sh
source "$WP_ROOT/tools/scripts/lib/python_models.sh"

ANSWER=.digest
EXPECTED=$SCRATCH/expected.json

# Skips the test where the machine lacks what it needs.
require_python() {
  find_python || skip "the Python engines cannot be installed here (reason above)"
  require_limits
}

# What a run without weightpager and without a limit computes, into FILE: unpaged FILE ENGINE…
unpaged() {
  local file=$1
  shift
  "$@" >"$file" || fail "without weightpager: the engine ended with $?"
  note "without weightpager: $(jq -c '{load_s, pass_s_median, rss_own_bytes, model_mapped_bytes}' "$file")"
}

# expect_digest MODEL ENGINE…: computes it without weightpager, and says what check_window needs.
expect_digest() {
  local name=${1##*/}
  MODEL_FILE=$1
  ENGINE=("${@:2}")
  RUN_OPTIONS=(--match "*.${name#*.}")
  unpaged "$EXPECTED" "${ENGINE[@]}"
  MODEL_BYTES=$(stat -Lc %s "$MODEL_FILE")
  TOUCHED_BYTES=$(jq .model_mapped_bytes "$EXPECTED")
  # Pages of libraries are in the page cache already, on another group's account: counted here they would make
  # room for weights.
  OWN_BYTES=$(jq '.rss_anon_bytes - .model_written_bytes' "$EXPECTED")
}
