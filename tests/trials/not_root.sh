#!/usr/bin/env bash
# A user without rights: faults are served for loads and stores only (USER_MODE_ONLY), and not more than
# 64 KiB may be locked.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
[[ $(id -u) == 0 ]] || note "run as $(id -un), who is not root anyway"
make_model
chmod 755 "$SCRATCH"
chmod 644 "$MODEL"
# What the launched processes write: output through descriptors that are open already, the report here.
mkdir -m 777 "$SCRATCH/nobody"
REPORT=$SCRATCH/nobody/report.json
export XDG_RUNTIME_DIR=$SCRATCH/nobody TMPDIR=$SCRATCH/nobody

BEFORE=("$LAUNCHER" --user 65534 --)
alone test -x "$WEIGHTPAGER" -a -r "$MODEL"
[[ $STATUS == 0 ]] || skip "the build is in a folder that other users may not enter: $WP_ROOT"

ulimit -l 64
trial 0 plain
trial 0 system-calls "$SCRATCH/nobody/copy"
trial 0 fork
trial 0 cancel
trial 0 signals
finish
