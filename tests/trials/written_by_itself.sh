#!/usr/bin/env bash
# An engine writes weights into the file that they come from, in place and by a hard link's name, and
# saves over it. Who writes holds the file's lock, which the pager's direct reads need: the weights are
# copied before. Nothing may wait for the other for ever.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model
cp "$MODEL" "$SCRATCH/whole"

prepare() { rm -f "$SCRATCH/link"; }
trial 0 write-into-itself "$SCRATCH/link"

served auto "$ENGINE" plain "$MODEL"
! grep -q 'no right to serve faults inside system calls' "$ERR" ||
  skip "not root, and no access to /dev/userfaultfd"
prepare() { cp "$SCRATCH/whole" "$MODEL"; }
trial 0 save-over-itself
finish
