#!/usr/bin/env bash
# ONNX Runtime with external data. What it computes by default from a model as exported, it computes to the last bit
# from the same model with its matrices prepacked on disk, where they stay mapped and can be paged.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local exported prepacked engine
  require_python
  prepacked=$(prepacked_onnx_chain) || fail "no model could be made"
  exported=$(onnx_chain)
  engine=("$PYTHON" "$ENGINES/onnxruntime_external.py" --model)
  unpaged "$SCRATCH/exported.json" "${engine[@]}" "$exported"
  expect_digest "$prepacked.data" "${engine[@]}" "$prepacked"
  same_answer "$SCRATCH/exported.json" "$EXPECTED" "prepacked on disk"
  # The file has the matrices in both layouts; one of them is mapped.
  MODEL_BYTES=$TOUCHED_BYTES
  check_windows 12 25 50 110
}

main
