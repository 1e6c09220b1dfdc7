#!/usr/bin/env bash
# What `weightpager serve` and `run --attach` cannot do they refuse, with the line that mends it, before anything
# starts.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
export XDG_RUNTIME_DIR=$SCRATCH

make_llama 48MiB "$SCRATCH/model.gguf"

expect_misuse() {
  expect_status 2
  expect_error "$1"
}
weightpager serve --window 64MiB --name a
expect_misuse 'no model to serve'
weightpager serve "$SCRATCH/model.gguf" --name a
expect_misuse '--window is missing'
weightpager serve "$SCRATCH/model.gguf" --window 64MiB
expect_misuse '--name is missing'
weightpager serve "$SCRATCH/model.gguf" --windw 64MiB --name a
expect_misuse 'did you mean --window?'
weightpager serve "$SCRATCH/model.gguf" --window 64MiB --name ''
expect_misuse 'expected NAME'

expect_failure() {
  expect_status 1
  expect_error "$1"
}
weightpager serve "$SCRATCH/none.gguf" --window 64MiB --name a
expect_failure 'none.gguf'
weightpager serve "$SCRATCH" --window 64MiB --name a
expect_failure 'no model in this directory'
weightpager serve "$SCRATCH/model.gguf" --window 1MiB --name a
expect_failure 'is too small'
for name in a/b .hidden 'with space'; do
  weightpager serve "$SCRATCH/model.gguf" --window 64MiB --name "$name"
  expect_failure 'is no name for a server'
done
chmod 755 "$SCRATCH/weightpager" 2>/dev/null || mkdir -m 755 "$SCRATCH/weightpager"
weightpager serve "$SCRATCH/model.gguf" --window 64MiB --name a
expect_failure 'not a directory that only you can enter'
rmdir "$SCRATCH/weightpager"

weightpager run --attach nobody -- "${MARKING[@]}"
expect_refusal 'no such server is running'
weightpager run --attach a --window 64MiB -- "${MARKING[@]}"
expect_refusal '--attach and --window exclude each other'
weightpager run --attach a --mapper copy -- "${MARKING[@]}"
expect_refusal '--attach and --mapper exclude each other'
