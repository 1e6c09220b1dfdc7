#!/usr/bin/env bash
# -q: nothing is printed, whatever happened to the engine.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

weightpager run -q --window 64MiB -- sh -c 'exit 37'
expect_status 37
[[ ! -s $ERR ]] || fail "stderr: $(cat "$ERR")"
[[ ! -s $OUT ]] || fail "stdout: $(cat "$OUT")"
