#!/usr/bin/env bash
# Engines that read their weights into memory: PyTorch by torch.load without mmap, and ONNX Runtime, which by default
# copies them into another layout, too. With --spill that memory is paged, and what they compute has the same bits.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"
# shellcheck source=tests/engine/lib/spilled.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/spilled.sh"

main() {
  local model size
  require_python
  require_spilling
  model=$(onnx_chain) || fail "no model could be made"
  size=$(stat -Lc %s "$model.data")
  ENGINE=("$PYTHON" "$ENGINES/onnxruntime_external.py" --model "$model")
  check_spilled "$size" 25 50
  model=$(torch_checkpoint) || fail "no model could be made"
  size=$(stat -Lc %s "$model")
  ENGINE=("$PYTHON" "$ENGINES/torch_load_mmap.py" --no-mmap --model "$model")
  check_spilled "$size" 25 50
}

main
