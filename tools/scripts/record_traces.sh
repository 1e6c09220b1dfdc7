#!/usr/bin/env bash
# Records the traces in tests/data/traces anew: what llama.cpp (a dense model, a mixture of experts) and PyTorch's
# transformers touch of their weights, in a window of half the model. Models and engines are made and installed where
# they are missing. Takes two minutes; the traces differ a little each time, in their times above all.
#
#   tools/scripts/record_traces.sh
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=tools/scripts/lib/engine.sh
source "$WP_ROOT/tools/scripts/lib/engine.sh"
# shellcheck source=tools/scripts/lib/python_models.sh
source "$WP_ROOT/tools/scripts/lib/python_models.sh"

TRACES=$WP_ROOT/tests/data/traces

# record NAME COMMAND…
record() {
  say "$1"
  "$WEIGHTPAGER" run --window 50% --record "$TRACES/$1.trace" -- "${@:2}" >/dev/null
  "$WEIGHTPAGER" trace stats "$TRACES/$1.trace"
}

main() {
  local model
  mkdir -p "$TRACES"
  find_engine || fail "llama.cpp cannot be installed here (reason above)"
  find_python || fail "PyTorch cannot be installed here (reason above)"
  model=$(make_model 512MiB f16)
  engine_on "$model" --tokens 8
  record llama-dense "${ENGINE[@]}"
  model=$(make_mixture 768MiB q8_0 8 2)
  engine_on "$model" --tokens 24
  record llama-mixture "${ENGINE[@]}"
  model=$(bf16_llama)
  record torch-transformers "$PYTHON" "$WP_ROOT/bench/engines/transformers_lm.py" --model "$model"
}

main "$@"
