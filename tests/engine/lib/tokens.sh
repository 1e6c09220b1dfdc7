# shellcheck shell=bash disable=SC2034  # what is set here is used by windows.sh
# The promise of weightpager for llama.cpp: the same greedy tokens.

# shellcheck source=tests/engine/lib/windows.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/windows.sh"

TOKENS=12
ANSWER=.tokens
EXPECTED=$SCRATCH/expected.json

# Skips the test where the machine lacks what it needs.
require_engine() { find_engine || skip "the llama.cpp engine cannot be installed here (reason above)"; }

# What every token needs: neither embedding rows nor experts.
dense_bytes() {
  "$WEIGHTPAGER" model show --json "$1" |
    jq -e '[.layers[] | select(.access == "whole") | .size_bytes - (.experts.size_bytes // 0)] | add'
}

# expect_tokens MODEL: generates them without weightpager and without a limit, and says what check_window needs. From
# weights that stay in the mapping, as with weightpager: those that llama.cpp copies into another layout are added up in
# another order there, and one token of a model in q4_0 was another one (AVX2).
expect_tokens() {
  MODEL_FILE=$1
  MODEL_BYTES=$(stat -Lc %s "$MODEL_FILE")
  TOUCHED_BYTES=$(dense_bytes "$MODEL_FILE")
  OWN_BYTES=$(own_memory "$MODEL_FILE")
  engine_on "$MODEL_FILE" --tokens "$TOKENS"
  say "without weightpager, without a limit"
  with_kernel_mmap "${ENGINE[@]}" >"$EXPECTED" || fail "without weightpager: the engine ended with $?"
  note "tokens $(answer_in "$EXPECTED"); the engine's own memory: $(mib_of "$OWN_BYTES")"
}

# compare_tokens SIZE TYPE PERCENT…: on a dense model.
compare_tokens() {
  local model
  require_engine
  require_limits
  model=$(make_model "$1" "$2") || fail "no $1 $2 model could be made"
  expect_tokens "$model"
  check_windows "${@:3}"
}
