#!/usr/bin/env bash
# A container's seccomp filter refuses io_uring (threads read instead), userfaultfd (the kernel maps the
# model, and one line says so) or both.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

BEFORE=("$LAUNCHER" --no-io-uring --)
trial 0 plain
jq -e '.processes[0].reader == "pread"' "$REPORT" >/dev/null || wrong "reader: $(cat "$REPORT")"
grep -q 'io_uring is not available' "$ERR" || wrong "no line about io_uring"

for refused in --no-userfaultfd "--no-userfaultfd --no-io-uring"; do
  # shellcheck disable=SC2206  # two options in one word
  BEFORE=("$LAUNCHER" $refused --)
  served auto "$ENGINE" plain "$MODEL"
  [[ $STATUS == 0 ]] || wrong "$refused: status $STATUS"
  grep -q 'error: userfaultfd is not available: Operation not permitted' "$ERR" || wrong "$refused: no line about it"
  note "$refused: the kernel maps the model"
done
finish
