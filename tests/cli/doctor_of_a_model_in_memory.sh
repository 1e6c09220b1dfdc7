#!/usr/bin/env bash
# A model on tmpfs has no direct reads: a warning, with what to do.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

[[ $(stat -f -c %T /dev/shm) == tmpfs ]] || skip "/dev/shm is no tmpfs"
model=$(mktemp /dev/shm/weightpager.XXXXXX.gguf)
trap 'rm -rf -- "$model" "$SCRATCH"' EXIT
make_llama 8MiB "$model" --force

doctor --json "$model"
expect_status 0
expect_row filesystem info tmpfs
expect_row direct_reads warn "cp -L $model"
expect_row reading info 'not measured'
