#!/usr/bin/env bash
# Greedy tokens of released llama.cpp on a mixture of experts are the same with and without weightpager, at windows from
# an eighth of the model to more than all of it, and the summary holds what was read for a token against the experts
# that it used and that were not in the window.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"

EXPERTS=8 USED=2

# Of the counters: whether PREDICATE holds. $dense is what every token needs.
expect_counters() {
  local percent=$1 predicate=$2
  jq -e --argjson dense "$TOUCHED_BYTES" ".processes[0] | $predicate" "$SCRATCH/pager.json" >/dev/null ||
    fail "window $percent %: not so: $predicate; $(jq -c '.processes[0]' "$SCRATCH/pager.json")"
}

check_experts() {
  local percent=$1 found
  expect_counters "$percent" '.passes > 1 and .expert_misses > 0 and .expert_misses <= .expert_uses'
  expect_counters "$percent" '.read_bytes >= .expert_missing_bytes'
  found=$(jq -r '.processes[0] | "\(.expert_uses) uses, \(.expert_misses) misses; read per pass"' "$SCRATCH/pager.json")
  grep -qF "  experts   $found" "$SCRATCH/summary.txt" || fail "window $percent %: the summary does not say '$found'"
}

main() {
  local model percent
  require_engine
  require_limits
  model=$(make_mixture 768MiB q8_0 "$EXPERTS" "$USED") || fail "no model could be made"
  expect_tokens "$model"
  for percent in 12 25 50 110; do
    check_window "$percent"
    check_experts "$percent"
    # An eighth of the model holds its dense part and a layer's experts, and hardly more: there chunks go out before
    # they were used up. Above, what is read is what was missing.
    # shellcheck disable=SC2016  # jq's variable
    ((percent < 25)) || expect_counters "$percent" '.read_bytes <= 1.25 * ($dense + .expert_missing_bytes)'
  done
}

main
