#!/usr/bin/env bash
# A model that cannot be read fails its row, as in `model show`; a wrong call is one error and one hint.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

doctor --json "$SCRATCH/missing.gguf"
expect_status 1
expect_row model fail missing.gguf
weightpager model show "$SCRATCH/missing.gguf"
expect_status 1

printf 'GGUF\003\000' >"$SCRATCH/broken.gguf"
doctor --json --window 25% "$SCRATCH/broken.gguf"
expect_status 1
expect_row model fail broken.gguf

misuse() {
  local text=$1
  shift
  weightpager doctor "$@"
  expect_status 2
  expect_error "$text"
  [[ ! -s $OUT ]] || fail "output all the same: $(cat "$OUT")"
}
misuse 'one model at most' a.gguf b.gguf
misuse 'share of which model' --window 25%
misuse '8GB' --window 8GB
misuse 'too small' --window 1MiB
misuse 'unknown option --jsn' --jsn
