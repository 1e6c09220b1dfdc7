#!/usr/bin/env bash
# A thousand times in one boot: weightpager.ko is loaded, serves, and is unloaded; the kernel complains of nothing, and has as
# much free memory afterwards as before. (6.12 in its name: with tools/test.sh --all only; `--kernel 6.1` for the other.)
set -euo pipefail
series=${2:-6.12}
# shellcheck source=tests/kernels/lib/module.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/module.sh"
rounds=${ROUNDS:-1000}
tests=$WEIGHTPAGER_BUILD/tests/module_tests
round="rmmod weightpager; insmod $work/weightpager.ko || exit 1; $tests --gtest_brief=1 --gtest_filter=*WhatIsHiddenWaits*:*SmallChunks* >round 2>&1 || { cat round; exit 1; }"
free="echo 3 >/proc/sys/vm/drop_caches; awk \"/^MemAvailable/ {print \\\$2}\" /proc/meminfo"
script="$round; before=\$($free); for ((i = 1; i < $rounds; i++)); do $round; done; rmmod weightpager; after=\$($free); "
# All of the log, also what the tests have read.
script+="timeout 2 cat /dev/kmsg >log; [ -s log ] || exit 1; grep -E \"WARNING:|BUG:|Oops|Bad page|Call Trace|Bad rss-counter\" log && exit 1; "
script+="echo available: \$before KiB, then \$after KiB; (( after + 32768 > before ))"
"$WP_ROOT/tools/scripts/kernel_test.sh" --kernel "$series" --limit 800 --module "$work/weightpager.ko" \
  --log "$work/console" "$tests --gtest_list_tests --gtest_filter=None" "/bin/bash -c '$script'"
grep '^available: ' "$work/console"
