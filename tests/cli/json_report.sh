#!/usr/bin/env bash
# --json: a whole JSON object under the file's name, or a refusal before the engine starts.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

report=$SCRATCH/run.json

weightpager run --window 64MiB --json "$report" -- sh -c "! ls '$report'; exit 37"
expect_status 37
jq -e '.schema_version == 1 and .exit == {status: 37, signal: null} and .processes == []
  and .config.window_bytes == 67108864 and .config.engine[0] == "sh" and .cpus > 0
  and .elapsed_ns > 0 and (.kernel | length > 0)' "$report" >/dev/null || fail "$(cat "$report")"
[[ $(ls -d "$report"*) == "$report" ]] || fail "left behind: $(ls -d "$report"*)"

weightpager run --window 64MiB --json "$report" -- sh -c "kill -KILL \$\$"
expect_status 137
jq -e '.exit == {status: null, signal: 9}' "$report" >/dev/null || fail "$(cat "$report")"

weightpager run -q --window 64MiB --json /dev/stdout -- printf '\377'
jq -R . "$OUT" >/dev/null || fail "no report in the output: $(cat "$OUT")"

weightpager run --window 64MiB --json - -- "${MARKING[@]}"
expect_refusal '/dev/stdout'
weightpager run --window 64MiB --json "$SCRATCH/none/run.json" -- "${MARKING[@]}"
expect_refusal 'cannot be written'
weightpager run --window 64MiB --json "$SCRATCH" -- "${MARKING[@]}"
expect_refusal 'cannot be written'
