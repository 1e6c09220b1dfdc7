#!/usr/bin/env bash
# PyTorch computes the same bytes from torch.load(mmap=True) with and without weightpager.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model engine
  require_python
  model=$(torch_checkpoint) || fail "no model could be made"
  MODEL_BYTES=$(stat -Lc %s "$model")
  engine=("$PYTHON" "$ENGINES/torch_load_mmap.py" --model "$model")
  unpaged "$SCRATCH/expected.json" "${engine[@]}"
  compare_digests "$SCRATCH/expected.json" '*.pt' 12 25 50 110 -- "${engine[@]}"
}

main
