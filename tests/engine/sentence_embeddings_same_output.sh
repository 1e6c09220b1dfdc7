#!/usr/bin/env bash
# A trained model (all-MiniLM-L6-v2) embeds sentences to the same bits with and without weightpager, and the
# embeddings make sense. It has 87 MiB, so its smallest window (32 MiB) is more than a third of it.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model
  require_python
  model=$("$PYTHON" "$ENGINES/sentence_embeddings.py" --print-model) || fail "the package brings no model"
  expect_digest "$model/model.safetensors" "$PYTHON" "$ENGINES/sentence_embeddings.py" --model "$model"
  jq -e '.paraphrase > 0.6 and .unrelated < 0.3' "$EXPECTED" >/dev/null ||
    fail "this is no trained model: $(cat "$EXPECTED")"
  check_windows 40 50 110
}

main
