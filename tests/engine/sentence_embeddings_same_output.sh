#!/usr/bin/env bash
# A trained model (all-MiniLM-L6-v2) embeds sentences to the same bits with and without weightpager, and the
# embeddings make sense. It has 87 MiB, so its smallest window (32 MiB) is more than a third of it.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model engine
  require_python
  model=$("$PYTHON" "$ENGINES/sentence_embeddings.py" --print-model) || fail "the package brings no model"
  MODEL_BYTES=$(stat -Lc %s "$model/model.safetensors")
  engine=("$PYTHON" "$ENGINES/sentence_embeddings.py" --model "$model")
  unpaged "$SCRATCH/expected.json" "${engine[@]}"
  jq -e '.paraphrase > 0.6 and .unrelated < 0.3' "$SCRATCH/expected.json" >/dev/null ||
    fail "this is no trained model: $(cat "$SCRATCH/expected.json")"
  compare_digests "$SCRATCH/expected.json" '*.safetensors' 40 50 110 -- "${engine[@]}"
}

main
