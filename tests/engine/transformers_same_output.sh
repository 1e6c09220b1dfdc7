#!/usr/bin/env bash
# A causal language model of transformers gives the same tokens, and the same logits to the last bit, with and
# without weightpager.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model
  require_python
  model=$(bf16_llama) || fail "no model could be made"
  expect_digest "$model/model.safetensors" "$PYTHON" "$ENGINES/transformers_lm.py" --model "$model"
  check_windows 12 25 50 110
}

main
