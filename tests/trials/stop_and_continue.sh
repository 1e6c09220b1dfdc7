#!/usr/bin/env bash
# An engine under load is stopped and continued twenty times, the pager's thread with it.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

engine_pid() { pgrep -P "$1" -f "until-told" | head -n 1; }

for mapper in "${MAPPERS[@]}"; do
  told=$SCRATCH/told
  rm -f -- "$told"
  served "$mapper" "$ENGINE" until-told "$MODEL" "$told" &
  job=$!
  pid=
  until [[ -n $pid ]]; do
    kill -0 "$job" || fail "weightpager ended early: $(cat "$ERR")"
    pid=$(pgrep -f "^$ENGINE until-told $MODEL" | head -n 1 || true)
    sleep 0.05
  done
  for _ in {1..20}; do
    kill -STOP "$pid"
    sleep 0.05
    kill -CONT "$pid"
    sleep 0.05
  done
  touch "$told"
  wait "$job"
  # The job's variables were its own.
  jq -e '.processes[0].exit_status // 0 == 0' "$REPORT" >/dev/null || wrong "mapper $mapper: $(cat "$REPORT")"
done
finish
