#!/usr/bin/env bash
# A signal that kills the engine kills weightpager too, so that a shell sees what it would see
# without weightpager.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

# bash says how its child died only if it was a signal, not an exit status above 128.
killed_by() {
  STATUS=0
  # shellcheck disable=SC2016  # the inner shell expands
  bash -c '"$0" run --window 64MiB -- sh -c "kill -$1 \$\$"; exit $?' "$WEIGHTPAGER" "$1" \
    >"$OUT" 2>"$ERR" || STATUS=$?
}

killed_by TERM
expect_status 143
grep -q Terminated "$ERR" || fail "weightpager was not killed by SIGTERM: $(cat "$ERR")"

killed_by SEGV
expect_status 139
grep -q 'Segmentation fault' "$ERR" || fail "weightpager was not killed by SIGSEGV: $(cat "$ERR")"
grep -q 'no model was mapped' "$ERR" || fail "no summary after a killed engine: $(cat "$ERR")"
