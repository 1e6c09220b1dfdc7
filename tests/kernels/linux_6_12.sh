#!/usr/bin/env bash
# The mapper `move` works on Debian 12's backported kernel as on newer ones. What does not depend on it is tested on
# 6.1 beside this (docs/explanation/kernels.md): pages that are written to are copied, disks that fail have no mapper.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"

move='*/move-*ThreadsWrite*:*/FaultsTest*:*/CutOff*:*Adaptation*'
exec "$WP_ROOT/tools/scripts/kernel_test.sh" --kernel 6.12 --limit 300 "$WEIGHTPAGER_BUILD/tests/test_window" \
  "$WEIGHTPAGER_BUILD/tests/test_pager --gtest_filter=$move" "$WP_ROOT/tests/preload/every_call_as_with_mmap.sh"
