#!/usr/bin/env bash
# Without `--` the corrected command line is offered.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

weightpager run --window 64MiB touch "$MARKER" 'two words' -l
expect_refusal "weightpager run --window 64MiB -- touch $MARKER 'two words' -l"
