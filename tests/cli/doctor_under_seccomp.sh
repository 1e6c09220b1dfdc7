#!/usr/bin/env bash
# System call filters as containers have them: without userfaultfd nothing works, which fails and names the
# cure; without io_uring threads read, which is a warning.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

filter=$WEIGHTPAGER_BUILD/tests/refuse_system_calls

UNDER=("$filter" userfaultfd userfaultfd_device --)
doctor --json
expect_status 1
expect_row userfaultfd fail 'allow the userfaultfd system call in the seccomp filter'
expect_row userfaultfd fail 'userfaultfd is refused'
expect_row mapper info
[[ $(jq -r .verdict "$OUT") == fail ]] || fail "verdict: $(cat "$OUT")"

# The device is a way past the filter, for those who may open it.
if [[ -w /dev/userfaultfd ]]; then
  UNDER=("$filter" userfaultfd --)
  doctor --json
  expect_status 0
  expect_row userfaultfd ok /dev/userfaultfd
fi

UNDER=("$filter" io_uring --)
doctor --json
expect_status 0
expect_row io_uring warn 'seccomp profile'
expect_row mapper ok
