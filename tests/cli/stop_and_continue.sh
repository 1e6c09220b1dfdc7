#!/usr/bin/env bash
# SIGTSTP stops engine and weightpager, SIGCONT lets both go on.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

set -m # a process group of its own for the job, as in an interactive shell

state_of() { sed 's/.*) //; s/ .*//' "/proc/$1/stat"; }
is_stopped() { [[ $(state_of "$1") == T ]]; }
await() {
  until "$@"; do
    kill -0 "$job" || fail "weightpager ended early: $(cat "$ERR")"
    sleep 0.05
  done
}

"$WEIGHTPAGER" run --window 64MiB -- bash -c "
  echo \$\$ >'$SCRATCH/pid.part'; mv '$SCRATCH/pid.part' '$SCRATCH/pid'
  until [[ -e '$SCRATCH/continued' ]]; do sleep 0.05; done
  exit 9" 2>"$ERR" &
job=$!
await test -e "$SCRATCH/pid"
engine_pid=$(cat "$SCRATCH/pid")

kill -TSTP "$job"
await is_stopped "$job"
await is_stopped "$engine_pid"
touch "$SCRATCH/continued"
kill -CONT "$job"
# A shell under load may first hear, from wait, of the stop.
STATUS=148
while [[ $STATUS == 148 ]]; do
  STATUS=0
  wait "$job" || STATUS=$?
done
expect_status 9
