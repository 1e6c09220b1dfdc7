#!/usr/bin/env bash
# A child sees the plain file even if nobody can open it by its name any more; a file that is cut off
# inside a chunk stays readable before its new end.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/trials.sh"

make_model "$SCRATCH/first.gguf"
prepare() { cp --remove-destination "$SCRATCH/first.gguf" "$MODEL"; }

trial 0 deleted-in-child
trial 0 truncated-inside
finish
