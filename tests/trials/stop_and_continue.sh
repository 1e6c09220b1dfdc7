#!/usr/bin/env bash
# An engine under load is stopped and continued twenty times, the pager's thread with it.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model
told=$SCRATCH/told

stop_and_continue() {
  local pid=$1
  for _ in {1..20}; do
    kill -STOP "$pid"
    sleep 0.05
    kill -CONT "$pid"
    sleep 0.05
  done
}

for mapper in "${MAPPERS[@]}"; do
  rm -f -- "$told"
  (
    served "$mapper" "$ENGINE" until-told "$MODEL" "$told"
    exit "$STATUS"
  ) &
  job=$!
  pid=
  until [[ -n $pid ]]; do
    kill -0 "$job" || fail "weightpager ended early: $(cat "$ERR")"
    pid=$(pgrep -f "^$ENGINE until-told $MODEL" || true)
    sleep 0.05
  done
  stop_and_continue "$pid"
  touch "$told"
  status=0
  wait "$job" || status=$?
  skip_for_lack "$ERR"
  if [[ $status != 0 ]]; then
    wrong "mapper $mapper: status $status"
  else
    note "mapper $mapper: the file's bytes"
  fi
done
finish
