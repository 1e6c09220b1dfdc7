# shellcheck shell=bash
# The promise of weightpager in one function: the same tokens, whatever the window, inside a memory
# limit that leaves no room for a second copy.

# shellcheck source=tools/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../../tools/lib/common.sh"
# shellcheck source=tools/lib/engine.sh
source "$WP_ROOT/tools/lib/engine.sh"

TOKENS=12
LIMITED=$WP_ROOT/tools/lib/cgroup.sh
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT

# Skips the test where the machine lacks what it needs.
require_engine() { find_engine || skip "the llama.cpp engine cannot be installed here (reason above)"; }

require_limits() { "$LIMITED" --check; }

tokens_in() { jq -ce .tokens "$1"; }

# same_tokens EXPECTED_FILE FOUND_FILE WHAT
same_tokens() {
  [[ $(tokens_in "$1") == "$(tokens_in "$2")" ]] ||
    fail "$3: tokens differ: expected $(tokens_in "$1"), found $(tokens_in "$2")"
}

# One window, in percent of the model, inside window + the engine's own memory + slack.
check_window() {
  local model=$1 percent=$2 own=$3 expected=$4
  local size window limit
  size=$(stat -Lc %s "$model")
  window=$(((size * percent / 100) >> 21 << 1))
  limit=$(((window << 20) + own + MEMORY_SLACK))
  say "window $percent % (${window} MiB), limit $(mib_of "$limit")"
  engine_on "$model" --tokens "$TOKENS"
  drop_page_cache "$model"
  "$LIMITED" --limit "$limit" --report "$SCRATCH/limit.json" -- \
    "$WEIGHTPAGER" run --window "${window}MiB" --json "$SCRATCH/pager.json" -- "${ENGINE[@]}" \
    >"$SCRATCH/found.json" ||
    fail "window $percent %: the engine ended with $? ($(cat "$SCRATCH/limit.json"))"
  same_tokens "$expected" "$SCRATCH/found.json" "window $percent %"
  check_paged "$size" "$window"
  note "same tokens, $(jq -r .token_s_median "$SCRATCH/found.json") s each," \
    "at most $(mib_of "$(jq .max_bytes "$SCRATCH/limit.json")") in the group"
}

# That the tokens are right proves nothing if the pager was not in the way.
check_paged() {
  local size=$1 window=$2
  jq -e --argjson size "$size" --argjson window $((window << 20)) '
    .processes | length == 1 and (.[0] | .model_bytes >= $size and .window_bytes <= $window
    and .resident_bytes_max > 0 and .resident_bytes_max <= $window and .read_bytes > 0)
    ' "$SCRATCH/pager.json" >/dev/null ||
    fail "the pager did not serve the model from its window: $(jq -c . "$SCRATCH/pager.json")"
}

# compare_windows SIZE TYPE PERCENT…
compare_windows() {
  local size=$1 type=$2 model own percent
  shift 2
  require_engine
  require_limits
  model=$(make_model "$size" "$type") || fail "no $size $type model could be made"
  engine_on "$model" --tokens "$TOKENS"
  say "without weightpager, without a limit"
  "${ENGINE[@]}" >"$SCRATCH/expected.json"
  own=$(own_memory "$model")
  note "tokens $(tokens_in "$SCRATCH/expected.json"); the engine's own memory: $(mib_of "$own")"
  for percent in "$@"; do
    check_window "$model" "$percent" "$own" "$SCRATCH/expected.json"
  done
}
