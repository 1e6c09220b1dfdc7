#!/usr/bin/env bash
# A child sees the plain file even if its name is gone or another file's; a file that is cut off inside a
# chunk stays readable before its new end.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/trials.sh"

other=$SCRATCH/other.gguf
write_model "$SCRATCH/first.gguf" 1
write_model "$SCRATCH/second.gguf" 2
prepare() {
  cp --remove-destination "$SCRATCH/first.gguf" "$MODEL"
  cp --remove-destination "$SCRATCH/second.gguf" "$other"
}

trial 0 replaced-in-child "$other"
trial 0 deleted-in-child
trial 0 truncated-inside
finish
