# shellcheck shell=bash
# The promise of weightpager for the Python engines: the exact bytes that they compute are the same, whatever the
# window, inside a memory limit that leaves no room for a second copy of the weights.

# shellcheck source=tests/engine/lib/windows.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/windows.sh"
# shellcheck source=tools/lib/python_models.sh
source "$WP_ROOT/tools/lib/python_models.sh"

# Skips the test where the machine lacks what it needs.
require_python() {
  find_python || skip "the Python engines cannot be installed here (reason above)"
  require_limits
}

digest_in() { jq -re .digest "$1"; }

# same_digest EXPECTED_FILE FOUND_FILE WHAT
same_digest() {
  [[ $(digest_in "$1") == "$(digest_in "$2")" ]] ||
    fail "$3: outputs differ: expected $(digest_in "$1"), found $(digest_in "$2")"
}

# What a run without weightpager and without a limit computes, into FILE: unpaged FILE ENGINE…
unpaged() {
  local file=$1
  shift
  "$@" >"$file" || fail "without weightpager: the engine ended with $?"
  note "without weightpager: $(jq -c '{load_s, pass_s_median, rss_own_bytes, model_mapped_bytes}' "$file")"
}

# Right output proves nothing if the pager was not in the way: each byte that the engine touches must have come
# through the window, which never held more than it may. TOUCHED counts whole pages, and a file's last one may
# be short.
check_digest_paged() {
  local touched=$1 window=$2
  jq -e --argjson touched "$touched" --argjson window "$window" '
    .processes | length == 1 and (.[0] | .models >= 1 and .window_bytes <= $window and .resident_bytes_max > 0
    and .resident_bytes_max <= $window and .read_bytes + 4096 * .models >= $touched)
    ' "$SCRATCH/pager.json" >/dev/null ||
    fail "the pager did not serve the model from its window: $(jq -c . "$SCRATCH/pager.json")"
}

# One window, in percent of the bytes that the engine maps, inside window + the engine's own memory + slack.
check_digest_window() {
  local expected=$1 match=$2 percent=$3 touched own window limit
  shift 3
  touched=$(jq .model_mapped_bytes "$expected")
  # Pages of libraries are in the page cache already, on another group's account: counted here they would make
  # room for weights.
  own=$(jq '.rss_anon_bytes - .model_written_bytes' "$expected")
  window=$((MODEL_BYTES * percent / 100 >> 21 << 21))
  limit=$((window + own + MEMORY_SLACK))
  say "window $percent % ($(mib_of "$window")), limit $(mib_of "$limit")"
  "$LIMITED" --limit "$limit" --report "$SCRATCH/limit.json" -- \
    "$WEIGHTPAGER" run --window "$((window >> 20))MiB" --match "$match" --json "$SCRATCH/pager.json" -- "$@" \
    >"$SCRATCH/found.json" ||
    fail "window $percent %: the engine ended with $? ($(cat "$SCRATCH/limit.json"))"
  same_digest "$expected" "$SCRATCH/found.json" "window $percent %"
  check_digest_paged "$touched" "$window"
  note "same output, $(jq -r .pass_s_median "$SCRATCH/found.json") s a pass," \
    "at most $(mib_of "$(jq .max_bytes "$SCRATCH/limit.json")") in the group"
}

# compare_digests EXPECTED_FILE MATCH PERCENT… -- ENGINE…: MODEL_BYTES says what 100 % is.
compare_digests() {
  local expected=$1 match=$2 percents=() percent
  shift 2
  while [[ $1 != -- ]]; do
    percents+=("$1")
    shift
  done
  shift
  for percent in "${percents[@]}"; do
    check_digest_window "$expected" "$match" "$percent" "$@"
  done
}
