#!/usr/bin/env bash
# A container's seccomp filter refuses io_uring (threads read instead), userfaultfd (the engine is not
# started, and two lines say why and what to do) or both.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

BEFORE=("$LAUNCHER" --no-io-uring --)
trial 0 plain
served auto "$ENGINE" plain "$MODEL"
jq -e '.processes[0].reader == "pread"' "$REPORT" >/dev/null || wrong "reader: $(cat "$REPORT")"
grep -q 'io_uring is not available' "$ERR" || wrong "no line about io_uring"

weightpager_refused() {
  served auto "${MARKING[@]}"
  [[ $STATUS == 125 && ! -e $MARKER ]] || wrong "${BEFORE[*]}: status $STATUS"
  grep -q 'error: userfaultfd is refused .* seccomp filter' "$ERR" || wrong "${BEFORE[*]}: no line about it"
  note "${BEFORE[*]:1}: refused before the engine starts"
}

for refused in --no-userfaultfd "--no-userfaultfd --no-io-uring"; do
  # shellcheck disable=SC2206  # two options in one word
  BEFORE=("$LAUNCHER" $refused --)
  weightpager_refused
done
finish
