#!/usr/bin/env bash
# A run without a model says so in one line, and how to name other files.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

engine sh -c 'exit 37'
expect_status 37
grep -qxE 'weightpager: no model was mapped; looked for( \*(\.[a-z_]+)+)+ \(see --match\)' "$ERR" || fail "stderr: $(cat "$ERR")"
[[ $(wc -l <"$ERR") == 1 ]] || fail "stderr has other lines: $(cat "$ERR")"
