#!/usr/bin/env bash
# Released llama.cpp with its default kernels, which copy weights into other layouts: with --keep-copies its second start
# finds all of these copies, and writes none of them. Greedy tokens are those of its own default run in each start.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"
# shellcheck source=tests/engine/lib/spilled.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/spilled.sh"

REPORT=$SCRATCH/report.json
number() { jq "[.processes[] | .$1] | add" "$REPORT"; }

# start NAME: runs the engine, and compares its tokens.
start() {
  "$WEIGHTPAGER" run --window 25% "${RUN_OPTIONS[@]}" --keep-copies "$FOLDER/kept" --json "$REPORT" -- "${ENGINE[@]}" \
    >"$SCRATCH/answer" 2>"$SCRATCH/err" || fail "$1 start: $(cat "$SCRATCH/err")"
  [[ $(jq -c .tokens "$SCRATCH/answer") == "$(jq -c .tokens "$EXPECTED")" ]] || fail "$1 start: other tokens"
  note "$1 start: written $(mib_of "$(number spill_written_bytes)"), found $(mib_of "$(number spill_found_bytes)")," \
    "kept $(mib_of "$(number spill_kept_bytes)")"
  [[ $(number read_errors) == 0 && $(number spill_errors) == 0 ]] || fail "$1 start: $(cat "$SCRATCH/err")"
}

main() {
  local model kept_bytes
  require_engine
  require_spilling
  model=$(make_model 320MiB q4_0) || fail "no model could be made"
  # Threads that wait for each other by spinning take minutes where other programs run.
  engine_on "$model" --tokens 6 --threads 1
  "${ENGINE[@]}" >"$EXPECTED" || fail "without weightpager: the engine ended with $?"
  start first
  kept_bytes=$(number spill_kept_bytes)
  # All but what is in the window and the matrix that is mapped.
  ((kept_bytes >= $(stat -Lc %s "$model") * 7 / 10)) || fail "only $kept_bytes bytes were kept"
  start second
  # A chunk in which an activation lies beside weights is another one at each start.
  (($(number spill_found_bytes) >= kept_bytes * 9 / 10)) || fail "only $(number spill_found_bytes) bytes were found"
  (($(number spill_kept_bytes) <= kept_bytes / 10)) || fail "$(number spill_kept_bytes) bytes were kept again"
}

main "$@"
