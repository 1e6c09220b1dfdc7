#!/usr/bin/env bash
# The pager's tests pass on Debian 12's kernel too, which has no UFFDIO_MOVE: with the other mappers, and with guests
# of a server. Emulation is slow, so some tests are left to be run by hand (docs/explanation/kernels.md): those of small
# chunks, disks that fail, access profiles, mixtures, reads, writes and stores by the thousand, those that touch at
# random but for the soak, and those that take longest with mapper copy.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"

programs=()
for folder in window api attach; do
  programs+=("$WEIGHTPAGER_BUILD/tests/test_$folder")
done
programs+=("$WEIGHTPAGER_BUILD/tests/test_io --gtest_filter=-*WrittenLast*:*ShortInterruptedAndBusy*")
programs+=("$WEIGHTPAGER_BUILD/tests/test_pager --gtest_filter=*/collapse:*PagerTest*/copy-*FaultsTest*:*ThreadsWrite*:*Adaptation*:*AccessProfiles*:*Mixture*:*AtRandom/*:*ComeAndGo/copy:*HundredMappings*/copy")
exec "$WP_ROOT/tools/scripts/kernel_test.sh" --kernel 6.1 --limit 480 --lacks 'no UFFDIO_MOVE' "${programs[@]}" \
  "$WP_ROOT/tests/preload/every_call_as_with_mmap.sh"
