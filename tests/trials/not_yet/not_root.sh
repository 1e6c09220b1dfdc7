#!/usr/bin/env bash
# A user without rights gives absent weights to write(2) and send(2): the bytes arrive as with mmap.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/trials.sh"
make_model
chmod 755 "$SCRATCH"
chmod 644 "$MODEL"
mkdir -m 777 "$SCRATCH/nobody"
REPORT=$SCRATCH/nobody/report.json
export XDG_RUNTIME_DIR=$SCRATCH/nobody TMPDIR=$SCRATCH/nobody

BEFORE=("$LAUNCHER" --user 65534 --)
alone test -x "$WEIGHTPAGER" -a -r "$MODEL"
[[ $STATUS == 0 ]] || skip "the build is in a folder that other users may not enter: $WP_ROOT"

trial 0 system-calls "$SCRATCH/nobody/copy"
finish
