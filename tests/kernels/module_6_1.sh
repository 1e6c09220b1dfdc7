#!/usr/bin/env bash
# weightpager.ko builds without a warning for a Debian kernel, and does what it promises there:
# tests/kmod/lib/module_tests.cc. And the pager works on it: its tests with the mapper `module`, those with guests,
# two engines that read each byte once, and models that are changed in use. (`all SERIES`: with small chunks and much
# writing, for some minutes more.)
set -euo pipefail
series=${2:-6.1}
# shellcheck source=tests/kernels/lib/module.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/module.sh"
pager_tests='*/module-*ThreadsWrite*' more=()
if [[ ${1:-} == all ]]; then
  pager_tests='*/module*'
  more=("$WP_ROOT/tests/preload/every_call_as_with_mmap.sh")
fi
"$WP_ROOT/tools/scripts/kernel_test.sh" --kernel "$series" --limit 600 --module "$work/weightpager.ko" \
  --module "$work/weightpager_remote.ko" --with "$WEIGHTPAGER_BUILD/tests/trials_rewritten" \
  "$WEIGHTPAGER_BUILD/tests/module_tests" \
  "$WEIGHTPAGER_BUILD/tests/test_pager --gtest_filter=$pager_tests" "$WEIGHTPAGER_BUILD/tests/test_attach" \
  "$WP_ROOT/tests/kmod/two_processes_read_once.sh" "$WP_ROOT/tests/trials/rewritten.sh module" "${more[@]}"
