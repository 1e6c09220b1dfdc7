#!/usr/bin/env bash
# Misspelt commands, options and values are answered with the nearest.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

weightpager rnu
expect_status 2
expect_error 'did you mean run?'

weightpager --versoin
expect_status 2
expect_error 'did you mean --version?'

weightpager
expect_status 2
expect_error 'no command given'

weightpager run --windw 64MiB -- "${MARKING[@]}"
expect_refusal 'did you mean --window?'

weightpager run --window 64MiB --mapper mvoe -- "${MARKING[@]}"
expect_refusal 'did you mean move?'
