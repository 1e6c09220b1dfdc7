#!/usr/bin/env bash
# A run has a directory of its own, and leaves nothing behind; what a killed one left goes with the next.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

# Closed to others; root's to all who are not told of it.
engine sh -c "stat -c '%a %n' \"\$WEIGHTPAGER_RUN_DIR\"; stat -c %a \"\$WEIGHTPAGER_RUN_DIR/..\""
expect_status 0
{
  read -r mode directory
  read -r parent_mode
} <"$OUT"
expected=700
[[ $(id -u) != 0 ]] || expected=1733
[[ $mode == "$expected" ]] || fail "$directory has mode $mode"
[[ $(id -u) != 0 || $parent_mode == 711 ]] || fail "$directory lies in a folder of mode $parent_mode"
[[ ! -e $directory ]] || fail "$directory is still there"

# run_in_session: as a user whose session has a folder; root's is another one.
mkdir -m 700 "$SCRATCH/runtime"
run_in_session() { XDG_RUNTIME_DIR=$SCRATCH/runtime engine "$@"; }
if [[ $(id -u) != 0 ]]; then
  run_in_session sh -c "echo \"\$WEIGHTPAGER_RUN_DIR\""
  [[ $(cat "$OUT") == "$SCRATCH/runtime/"* ]] || fail "XDG_RUNTIME_DIR is not used: $(cat "$OUT")"
fi

# Killed while its engine runs: the folder stays as long as that does.
mkfifo "$SCRATCH/started" "$SCRATCH/end"
XDG_RUNTIME_DIR=$SCRATCH/runtime "$WEIGHTPAGER" run --window 64MiB -- \
  sh -c "touch \"\$WEIGHTPAGER_RUN_DIR/\$\$.telemetry\"; echo \"\$\$ \$WEIGHTPAGER_RUN_DIR\" >'$SCRATCH/started'
    read -r end <'$SCRATCH/end'" >/dev/null 2>&1 &
killed=$!
read -r process directory <"$SCRATCH/started"
run_in_session true
[[ -d $directory ]] || fail "the folder of a run that goes on was removed"
kill -KILL "$killed"
wait "$killed" 2>/dev/null || true
run_in_session true
[[ -d $directory ]] || fail "the folder of an engine that goes on was removed"
echo >"$SCRATCH/end"
while readlink "/proc/$process/exe" >/dev/null 2>&1; do sleep 0.01; done
run_in_session true
[[ ! -e $directory ]] || fail "$directory of a killed run is still there"

# Others could put files there.
chmod 777 "$SCRATCH/runtime"
run_in_session sh -c "echo \"\$WEIGHTPAGER_RUN_DIR\""
[[ $(cat "$OUT") != "$SCRATCH/runtime/"* ]] || fail "a directory that is open to all is used"
