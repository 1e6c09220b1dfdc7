#!/usr/bin/env bash
# A share of the model becomes a window in bytes, in whole chunks.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

truncate -s 256MiB "$SCRATCH/model.weights"
weightpager run --window 25% --match '*.weights' -- \
  sh -c "echo \$WEIGHTPAGER_WINDOW" "$SCRATCH/model.weights"
expect_status 0
[[ $(cat "$OUT") == $((64 << 20)) ]] || fail "window $(cat "$OUT"), expected $((64 << 20))"
