#!/usr/bin/env bash
# An engine that cannot be executed: 126, as from a shell.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

touch "$SCRATCH/engine"
engine "$SCRATCH/engine"
expect_status 126
expect_error "chmod +x $SCRATCH/engine"

engine "$SCRATCH"
expect_status 126
expect_error 'is a directory'

# Found and executable, but not what it says: only exec can tell.
printf '#!/no/such/interpreter\n' >"$SCRATCH/engine"
chmod +x "$SCRATCH/engine"
engine "$SCRATCH/engine"
expect_status 127
expect_error 'cannot be started'
