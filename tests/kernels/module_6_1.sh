#!/usr/bin/env bash
# weightpager.ko builds without a warning for a Debian kernel (6.1 unless `--kernel 6.12`), and does what it
# promises there: tests/kmod/lib/module_tests.cc. And the pager works on it: its tests with the mapper `module`, and
# those with guests.
set -euo pipefail
# shellcheck source=tools/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/lib/common.sh"
# shellcheck source=tools/kernel/image.sh
source "$WP_ROOT/tools/kernel/image.sh"
# shellcheck source=tools/kernel/modules.sh
source "$WP_ROOT/tools/kernel/modules.sh"

series=${2:-6.1}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
have make || skip "make is not installed: tools/install.sh --kernels"
build_modules "$series" "$work" || skip "$KERNEL_MISSING"
"$WP_ROOT/tools/kernel_test.sh" --kernel "$series" --limit 240 --module "$work/weightpager.ko" \
  --module "$work/weightpager_remote.ko" "$WEIGHTPAGER_BUILD/tests/module_tests" \
  "$WEIGHTPAGER_BUILD/tests/test_pager --gtest_filter=*PagerTest*/module-*ThreadsWrite*" "$WEIGHTPAGER_BUILD/tests/test_attach"
