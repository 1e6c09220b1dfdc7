#!/usr/bin/env bash
# weightpager.ko and userfaultfd in one boot, by one program (bench/module_versus_userfaultfd.cc): its table, of which
# only ratios mean something here; and a GPU's fault waits on the module and nowhere else. (`--kernel 6.1` for the other.)
set -euo pipefail
series=${2:-6.12}
# shellcheck source=tests/kernels/lib/module.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/module.sh"
"$WP_ROOT/tools/scripts/kernel_test.sh" --kernel "$series" --limit 100 --log "$work/console" --module "$work/weightpager.ko" \
  --module "$work/weightpager_remote.ko" "$WEIGHTPAGER_BUILD/bench/module_versus_userfaultfd 300"
grep -A 4 '^mapper ' "$work/console"
grep -q '^module .* waits$' "$work/console" || fail "a GPU's fault was not tried"
