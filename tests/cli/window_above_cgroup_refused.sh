#!/usr/bin/env bash
# A window that is larger than the memory cgroup's limit is refused, with the file that says so.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

limited=$WP_ROOT/tools/scripts/lib/cgroup.sh
"$limited" --check

STATUS=0
"$limited" --limit $((128 << 20)) --report "$SCRATCH/limit.json" -- \
  "$WEIGHTPAGER" run --window 256MiB -- "${MARKING[@]}" >"$OUT" 2>"$ERR" || STATUS=$?
expect_refusal '/sys/fs/cgroup/'
grep -q '128.0 MiB' "$ERR" || fail "the limit is not named: $(cat "$ERR")"
