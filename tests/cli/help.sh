#!/usr/bin/env bash
# Help goes to standard output, is a success, and has its parts in one order.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

expect_help() {
  expect_status 0
  [[ ! -s $ERR ]] || fail "stderr: $(cat "$ERR")"
  [[ $(grep -E '^[A-Z][a-z ]+:$' "$OUT" | tr -d '\n') == "$1" ]] || fail "parts: $(cat "$OUT")"
  [[ $(wc -L <"$OUT") -le 80 ]] || fail "a line is longer than 80 columns"
}
for flag in -h --help; do
  weightpager "$flag"
  expect_help 'Usage:Commands:Options:Examples:Environment:Exit status:'
  weightpager doctor "$flag"
  expect_help 'Usage:Options:Examples:Environment:Exit status:'
  weightpager serve "$flag"
  expect_help 'Usage:Options:Examples:Environment:Exit status:'
  weightpager run "$flag"
  expect_help 'Usage:Options:Examples:Environment:Exit status:'
done

weightpager --version
expect_status 0
grep -qE '^weightpager [0-9.]+ \(commit .+\)$' "$OUT" || fail "version: $(cat "$OUT")"
