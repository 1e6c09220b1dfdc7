#!/usr/bin/env bash
# PyTorch computes the same bytes from safetensors.torch.load_file with and without weightpager. The file is mapped
# twice, once to read the header, once private and writable for the tensors.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model
  require_python
  model=$(bf16_llama)/model.safetensors || fail "no model could be made"
  expect_digest "$model" "$PYTHON" "$ENGINES/torch_safetensors.py" --model "$model"
  check_windows 12 25 50 110
}

main
