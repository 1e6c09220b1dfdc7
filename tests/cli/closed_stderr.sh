#!/usr/bin/env bash
# Nobody reads the summary: the exit status stays the engine's.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

STATUS=0
"$WEIGHTPAGER" run --window 64MiB -- sh -c 'sleep 0.2; exit 37' 2> >(exec true) || STATUS=$?
: >"$ERR"
expect_status 37
