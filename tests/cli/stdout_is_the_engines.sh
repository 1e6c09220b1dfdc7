#!/usr/bin/env bash
# The engine's input and output are its own, byte for byte.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

head -c 100000 /dev/urandom >"$SCRATCH/bytes"
"$WEIGHTPAGER" run --window 64MiB -- cat <"$SCRATCH/bytes" >"$OUT" 2>"$ERR"
cmp "$SCRATCH/bytes" "$OUT" || fail "the output is not what the engine wrote"
