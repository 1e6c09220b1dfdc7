#!/usr/bin/env bash
# A run has a directory of its own, closed to others, and leaves nothing behind.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

engine sh -c "stat -c '%a %n' \"\$WEIGHTPAGER_RUN_DIR\""
expect_status 0
read -r mode directory <"$OUT"
[[ $mode == 700 ]] || fail "$directory has mode $mode"
[[ ! -e $directory ]] || fail "$directory is still there"

mkdir -m 700 "$SCRATCH/runtime"
XDG_RUNTIME_DIR=$SCRATCH/runtime engine sh -c "echo \"\$WEIGHTPAGER_RUN_DIR\""
[[ $(cat "$OUT") == "$SCRATCH/runtime/"* ]] || fail "XDG_RUNTIME_DIR is not used: $(cat "$OUT")"

# Others could put files there.
chmod 777 "$SCRATCH/runtime"
XDG_RUNTIME_DIR=$SCRATCH/runtime engine sh -c "echo \"\$WEIGHTPAGER_RUN_DIR\""
[[ $(cat "$OUT") != "$SCRATCH/runtime/"* ]] || fail "a directory that is open to all is used"
