#!/usr/bin/env bash
# SIGTSTP stops engine and weightpager, SIGCONT lets both go on.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

set -m # a process group of its own for the job, as in an interactive shell

state_of() { sed 's/.*) //; s/ .*//' "/proc/$1/stat"; }
await_state() { until [[ $(state_of "$1") == "$2" ]]; do sleep 0.05; done; }

"$WEIGHTPAGER" run --window 64MiB -- bash -c "
  echo \$\$ >'$SCRATCH/pid.part'; mv '$SCRATCH/pid.part' '$SCRATCH/pid'
  until [[ -e '$SCRATCH/continued' ]]; do sleep 0.05; done
  exit 9" 2>"$ERR" &
job=$!
until [[ -e $SCRATCH/pid ]]; do sleep 0.05; done
engine_pid=$(cat "$SCRATCH/pid")

kill -TSTP "$job"
await_state "$job" T
await_state "$engine_pid" T
touch "$SCRATCH/continued"
kill -CONT "$job"
STATUS=0
wait "$job" || STATUS=$?
expect_status 9
