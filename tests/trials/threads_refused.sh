#!/usr/bin/env bash
# No room for the pager's threads, in the address space or in the number of processes of a user (as a
# container's pids limit has it): one line says so, and the engine runs or mmap fails; nothing aborts.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model
chmod 755 "$SCRATCH"
chmod 644 "$MODEL"
mkdir -m 777 "$SCRATCH/run"
REPORT=$SCRATCH/run/report.json
export XDG_RUNTIME_DIR=$SCRATCH/run TMPDIR=$SCRATCH/run

# limited WHAT VALUE: with no other user's processes in the count.
limited() {
  local mapper
  # shellcheck disable=SC2016  # for the inner shell
  BEFORE=("$LAUNCHER" --user 65533 -- bash -c 'ulimit "$0" "$1" && shift && exec "$@"' "$1" "$2")
  for mapper in "${MAPPERS[@]}"; do
    served "$mapper" "$ENGINE" plain "$MODEL"
    if [[ $STATUS != 0 ]] && ! grep -q 'engine: mmap (errno 12' "$ERR"; then
      wrong "ulimit $1 $2, mapper $mapper: status $STATUS"
    else
      note "ulimit $1 $2, mapper $mapper: status $STATUS, $(grep -m 1 'error: ' "$ERR" || echo served)"
    fi
  done
}

limited -v 100000
for processes in 2 3 4 6; do
  limited -u "$processes"
done
finish
