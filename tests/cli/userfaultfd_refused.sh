#!/usr/bin/env bash
# Where no userfaultfd is to be had, a run is refused before the engine starts, with what mends it.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

STATUS=0
"$WEIGHTPAGER_BUILD/tests/refuse_system_calls" userfaultfd userfaultfd_device -- \
  "$WEIGHTPAGER" run --window 64MiB -- "${MARKING[@]}" >"$OUT" 2>"$ERR" || STATUS=$?
expect_refusal 'userfaultfd is refused'
grep -q '^hint: .*seccomp' "$ERR" || fail "no cure: $(cat "$ERR")"
