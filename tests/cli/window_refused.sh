#!/usr/bin/env bash
# Sizes that cannot work are refused before the engine starts, with examples where they are misspelt.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

refused() {
  weightpager run --window "$1" -- "${MARKING[@]}"
  expect_refusal "$2"
}

refused 8GB '8GiB'
refused 1XB 'examples: '
refused -1 'examples: '
refused '' 'expected SIZE'
refused 0% 'examples: '
refused 25%% 'examples: '
refused 31MiB 'smallest window is 32.0 MiB'
refused 900TiB 'MemTotal'
refused 25% 'no model file is among'

weightpager run -- "${MARKING[@]}"
expect_refusal '--window is missing'
