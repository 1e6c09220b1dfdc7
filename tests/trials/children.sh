#!/usr/bin/env bash
# fork, fork in a child, vfork, posix_spawn and exec, while other threads wait for chunks: children see
# the plain file, programs that they start get windows of their own.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

for name in fork fork-of-fork vfork spawn exec; do
  trial 0 "$name"
done
finish
