#!/usr/bin/env bash
# Without rights on userfaultfd only user-mode faults are served: a warning with the command that mends
# it.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

[[ $(id -u) == 0 ]] || skip "only root can become another user"
have setpriv || skip "setpriv (util-linux) is missing"
[[ -c /dev/userfaultfd ]] || skip "this kernel has no /dev/userfaultfd"
[[ $(cat /proc/sys/vm/unprivileged_userfaultfd) == 0 ]] || skip "every user has all faults here"

# Builds may lie where nobody else may look.
chmod 755 "$SCRATCH"
cp "$WEIGHTPAGER" "$SCRATCH/weightpager"
WEIGHTPAGER=$SCRATCH/weightpager
UNDER=(setpriv --reuid=nobody --regid=65534 --clear-groups)
doctor --json
expect_status 0
expect_row userfaultfd warn 'sudo setfacl -m u:nobody:rw /dev/userfaultfd'
[[ $(jq -r '.rows[] | select(.id == "userfaultfd").facts.door' "$OUT") == 'user mode only' ]] ||
  fail "another door: $(cat "$OUT")"
