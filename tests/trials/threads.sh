#!/usr/bin/env bash
# Threads that end while they or others wait for a chunk. The pager's own thread cannot be killed by
# itself: the process dies of the same signal, and weightpager says so.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

for name in cancel exit main-thread-ends; do
  trial 0 "$name"
done
trial 137 pager-thread-killed
finish
