#!/usr/bin/env bash
# A model that cannot be trusted is refused before the engine starts, wherever its name stands.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

: >"$SCRATCH/empty.gguf"
printf 'GGUF\003\000\000\000\001' >"$SCRATCH/truncated.gguf"
echo '<!DOCTYPE html><html>' >"$SCRATCH/PAGE.GGUF"
printf '\377\377\377\377\377\377\377\177{}' >"$SCRATCH/hostile.safetensors"
mkdir "$SCRATCH/folder"
: >"$SCRATCH/folder/model.safetensors"
: >"$SCRATCH/empty.gguf.other"

refused() {
  engine "${MARKING[@]}" "$1"
  expect_refusal "$2"
}
refused "$SCRATCH/empty.gguf" 'empty.gguf'
refused "--model=$SCRATCH/empty.gguf" 'empty.gguf'
refused "$SCRATCH/truncated.gguf" 'truncated.gguf'
refused "$SCRATCH/PAGE.GGUF" 'PAGE.GGUF'
refused "$SCRATCH/hostile.safetensors" 'hostile.safetensors'
refused "$SCRATCH/folder" 'model.safetensors'

weightpager run --window 64MiB --match '*.other' -- "${MARKING[@]}" "$SCRATCH/empty.gguf.other"
expect_refusal 'empty.gguf.other'
