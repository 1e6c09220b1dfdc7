#!/usr/bin/env bash
# The pager's tests pass on Debian 12's kernel too, which has no UFFDIO_MOVE. (docs/kernels.md)
set -euo pipefail
# shellcheck source=tools/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/lib/common.sh"

programs=()
for room in window pager io policy api; do
  programs+=("$WEIGHTPAGER_BUILD/tests/test_$room")
done
exec "$WP_ROOT/tools/kernel_test.sh" --kernel 6.1 --limit 480 "${programs[@]}" \
  "$WP_ROOT/tests/preload/every_call_as_with_mmap.sh"
