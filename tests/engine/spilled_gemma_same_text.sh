#!/usr/bin/env bash
# A trained model: Gemma 3 270M in Q4_K_M, of which llama.cpp copies the matrices into another layout. A prompt in words
# is continued, greedily, by the same text with --spill in windows of 30, 50 and 80 % of the model as without weightpager.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"
# shellcheck source=tools/scripts/lib/python_models.sh
source "$WP_ROOT/tools/scripts/lib/python_models.sh"
# shellcheck source=tests/engine/lib/spilled.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/spilled.sh"

ANSWER='[.text, .tokens]'
PROMPT="In 1969, the first humans landed on the Moon. The astronauts"

main() {
  local model
  require_engine
  require_spilling
  model=$(gemma_model) || skip "Gemma cannot be installed here (reason above)"
  # Threads that wait for each other by spinning take minutes where other programs run.
  engine_on "$model" --text "$PROMPT" --tokens 24 --threads 1
  # The embeddings, which are most of the rest, are looked up by row, and copied as the output's matrix.
  expect_spilled "$model" $(($(stat -Lc %s "$model") / 2)) "$(own_memory "$model")" "${ENGINE[@]}"
  note "$(jq -c .text "$EXPECTED")"
  check_windows 30 50 80
}

main
