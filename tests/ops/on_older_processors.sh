#!/usr/bin/env bash
# The operations as oneDNN computes them on processors without AVX-512, without AVX2, without AVX: as exact, and
# whole or in tiles the same bits. And inferences in windows, the tiles of which are larger there.
set -euo pipefail
# shellcheck source=tests/ops/lib/outputs.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/outputs.sh"

# What oneDNN can leave out depends on how it was built.
knows_the_setting() {
  local said
  said=$(ONEDNN_VERBOSE=1 ONEDNN_MAX_CPU_ISA=SSE41 "$PROGRAMS/test_ops" --gtest_filter='AveragePool.*')
  [[ $said == *SSE4.1* ]]
}

main() {
  local instructions program
  for program in test_ops test_infer; do
    [[ -x $PROGRAMS/$program ]] || fail "$PROGRAMS/$program is missing: build it (cmake --build --preset release)"
  done
  knows_the_setting || skip "this oneDNN was built without ONEDNN_MAX_CPU_ISA"
  for instructions in AVX2 AVX SSE41; do
    say "$instructions"
    ONEDNN_MAX_CPU_ISA=$instructions "$PROGRAMS/test_ops" --gtest_brief=1 || fail "wrong with $instructions"
    ONEDNN_MAX_CPU_ISA=$instructions "$PROGRAMS/test_infer" --gtest_filter='InferenceTest.*' --gtest_brief=1 ||
      fail "wrong with $instructions, in a window"
  done
}

main
