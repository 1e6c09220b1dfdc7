#!/usr/bin/env bash
# A library that is preloaded already stays so, behind the interposer.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

LD_PRELOAD=libm.so.6 engine sh -c "echo \$LD_PRELOAD"
expect_status 0
[[ $(cat "$OUT") == /*/libweightpager_preload.so:libm.so.6 ]] || fail "LD_PRELOAD is $(cat "$OUT")"
