#!/usr/bin/env bash
# An engine that copies its weights out of the mapping defeats any window. With the engine profile
# switched off, released llama.cpp does so with q4_0 weights on most CPUs: the summary must say it.
# No memory limit here: inside one the engine would be killed, which is what the message saves from.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"

model_is_copied() {
  local model=$1 size
  size=$(stat -Lc %s "$model")
  "${ENGINE[@]}" | jq -e --argjson size "$size" '.rss_anon_bytes > $size / 2' >/dev/null
}

main() {
  local model
  require_engine
  model=$(make_model 512MiB q4_0) || fail "no model could be made"
  engine_on "$model" --tokens 4
  model_is_copied "$model" || skip "llama.cpp does not copy q4_0 weights on this CPU"
  "$WEIGHTPAGER" run --window 128MiB --no-profile --json "$SCRATCH/pager.json" -- "${ENGINE[@]}" \
    >"$SCRATCH/found.json" 2>"$SCRATCH/summary.txt"
  cat "$SCRATCH/summary.txt"
  tr -s ' \n' ' ' <"$SCRATCH/summary.txt" | grep -q 'a copy of its weights' ||
    fail "the summary does not say that the engine copied its weights"
  jq -e --argjson size "$(stat -Lc %s "$model")" '.processes[0].engine_bytes_max > $size / 2' \
    "$SCRATCH/pager.json" >/dev/null ||
    fail "engine_bytes_max does not show the copy: $(jq -c . "$SCRATCH/pager.json")"
}

main
