#!/usr/bin/env bash
# Absent weights are given to write(2) and send(2), by a user who may serve the kernel's faults.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

served auto "$ENGINE" plain "$MODEL"
! grep -q 'no right to serve faults inside system calls' "$ERR" ||
  skip "not root, and no access to /dev/userfaultfd"
trial 0 system-calls "$SCRATCH/copy"
finish
