#!/usr/bin/env bash
# A model that is changed while weightpager.ko shows it: tests/trials/rewritten.sh, every way, moment and user, with the
# mapper `module`; and the kernel complains of nothing. (6.12 in its name: with tools/test.sh --all only; `--kernel 6.1` for the other.)
set -euo pipefail
series=${2:-6.12}
# shellcheck source=tests/kernels/lib/module.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/module.sh"
complaints='WARNING:|BUG:|Oops|Bad page|Call Trace|Bad rss-counter'
"$WP_ROOT/tools/scripts/kernel_test.sh" --kernel "$series" --limit 1300 --log "$work/console" --module "$work/weightpager.ko" \
  --with "$WEIGHTPAGER_BUILD/tests/trials_rewritten" "$WP_ROOT/tests/trials/rewritten.sh all module" \
  "/bin/bash -c '! dmesg | grep -E \"$complaints\"'"
grep ' runs, ' "$work/console"
