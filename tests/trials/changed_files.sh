#!/usr/bin/env bash
# A model file that is replaced, deleted or cut off while it is mapped: the old file's bytes, or SIGBUS
# behind the new end. Never zeros, never another file's bytes; the same in child processes.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
other=$SCRATCH/other.gguf

# Made once; the trials use them up.
write_model "$SCRATCH/first.gguf" 1
write_model "$SCRATCH/second.gguf" 2
prepare() {
  cp --remove-destination "$SCRATCH/first.gguf" "$MODEL"
  cp --remove-destination "$SCRATCH/second.gguf" "$other"
}

trial 0 replaced "$other"
trial 0 deleted
trial 0 truncated
trial 0 truncated-inside
trial 0 replaced-in-child "$other"
trial 0 deleted-in-child
finish
