# shellcheck shell=bash
# The promise of weightpager in one function: the same output, whatever the window, inside a memory limit that leaves
# no room for a second copy of the weights. lib/tokens.sh and lib/digests.sh say what that means for llama.cpp and for
# the Python engines. Before a window is checked these must be set:
#
#   ENGINE         the engine's command line; the last line that it prints is a JSON object
#   ANSWER         which of its values must not change: .tokens
#   EXPECTED       a file with that object from a run without weightpager
#   MODEL_FILE     the file that the engine maps
#   MODEL_BYTES    what 100 % is
#   TOUCHED_BYTES  what the engine touches of it, to the page, at the least
#   OWN_BYTES      what the engine needs beside its mapped weights
#   RUN_OPTIONS    more options for weightpager run, if any

# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../../tools/scripts/lib/common.sh"
# shellcheck source=tools/scripts/lib/engine.sh
source "$WP_ROOT/tools/scripts/lib/engine.sh"

LIMITED=$WP_ROOT/tools/scripts/lib/cgroup.sh
RUN_OPTIONS=()
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT

# Skips the test where the machine lacks what it needs.
require_limits() { "$LIMITED" --check; }

answer_in() { jq -ce "$ANSWER" "$1"; }

# same_answer EXPECTED_FILE FOUND_FILE WHAT
same_answer() {
  [[ $(answer_in "$1") == "$(answer_in "$2")" ]] ||
    fail "$3: $ANSWER differs: expected $(answer_in "$1"), found $(answer_in "$2")"
}

# The same answer proves nothing if the pager was not in the way: each byte that the engine touches must have come
# through the window, which never held more than it may. A file's last page may be short.
check_paged() {
  local window=$1
  jq -e --argjson model "$MODEL_BYTES" --argjson touched "$TOUCHED_BYTES" --argjson window "$window" '
    .processes | length == 1 and (.[0] | .models >= 1 and .model_bytes >= $model and .window_bytes <= $window
    and .resident_bytes_max > 0 and .resident_bytes_max <= $window and .read_bytes + 4096 * .models >= $touched)
    ' "$SCRATCH/pager.json" >/dev/null ||
    fail "the pager did not serve the model from its window: $(jq -c . "$SCRATCH/pager.json")"
}

# check_window PERCENT: leaves the pager's report in $SCRATCH/pager.json, its summary in $SCRATCH/summary.txt.
check_window() {
  local percent=$1 window limit status=0
  window=$((MODEL_BYTES * percent / 100 >> 21 << 21))
  limit=$((window + OWN_BYTES + MEMORY_SLACK))
  say "window $percent % ($(mib_of "$window")), limit $(mib_of "$limit")"
  drop_page_cache "$MODEL_FILE"
  "$LIMITED" --limit "$limit" --report "$SCRATCH/limit.json" -- \
    "$WEIGHTPAGER" run --window "$((window >> 20))MiB" "${RUN_OPTIONS[@]}" --json "$SCRATCH/pager.json" -- \
    "${ENGINE[@]}" >"$SCRATCH/found.json" 2>"$SCRATCH/summary.txt" || status=$?
  cat -- "$SCRATCH/summary.txt"
  ((status == 0)) || fail "window $percent %: the engine ended with $status ($(cat "$SCRATCH/limit.json"))"
  same_answer "$EXPECTED" "$SCRATCH/found.json" "window $percent %"
  check_paged "$window"
  note "same output, $(jq -r '.token_s_median // .pass_s_median' "$SCRATCH/found.json") s a pass," \
    "at most $(mib_of "$(jq .max_bytes "$SCRATCH/limit.json")") in the group"
}

check_windows() {
  local percent
  for percent in "$@"; do
    check_window "$percent"
  done
}
