#!/usr/bin/env bash
# PyTorch computes the same bytes from safetensors.torch.load_file with and without weightpager. The file is mapped
# twice, once to read the header, once private and writable for the tensors.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model engine
  require_python
  model=$(bf16_llama)/model.safetensors || fail "no model could be made"
  MODEL_BYTES=$(stat -Lc %s "$model")
  engine=("$PYTHON" "$ENGINES/torch_safetensors.py" --model "$model")
  unpaged "$SCRATCH/expected.json" "${engine[@]}"
  compare_digests "$SCRATCH/expected.json" '*.safetensors' 12 25 50 110 -- "${engine[@]}"
}

main
