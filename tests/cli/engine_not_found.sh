#!/usr/bin/env bash
# An engine that is not there: 127, as from a shell.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

engine no-such-engine
expect_status 127
expect_error 'no-such-engine: engine not found'

cd "$SCRATCH"
touch here
engine here
expect_status 127
expect_error 'did you mean ./here?'
