#!/usr/bin/env bash
# ONNX Runtime with session.disable_prepacking works on the model as exported, where it is mapped, one mapping a
# tensor. It rounds in another order than with prepacking; with and without weightpager it gives the same.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model
  require_python
  model=$(onnx_chain) || fail "no model could be made"
  expect_digest "$model.data" "$PYTHON" "$ENGINES/onnxruntime_external.py" --no-prepacking --model "$model"
  check_windows 12 25 50 110
}

main
