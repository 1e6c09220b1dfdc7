#!/usr/bin/env bash
# A skip that tests/skips.txt does not list is found in ctest's report, and so is a test that fails behind its skip.
set -eu
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"
checker=$WP_ROOT/tests/style/lib/skips.py
report=$(mktemp)
trap 'rm -f -- "$report"' EXIT

# judge EXPECTED NAME OUTPUT [--ci]: what the checker says of one test that was skipped.
judge() {
  local found
  printf '<testsuite><testcase name="%s" status="notrun"><system-out>%s</system-out></testcase></testsuite>' "$2" "$3" >"$report"
  found=$("$checker" "${@:4}" "$report") || true
  [[ $found == "$1" ]] || fail "of $2, which said '$3', the checker says '$found', not '$1'"
}

passes=$'\n[  SKIPPED ] it\n[  PASSED  ] 0 tests.'
judge '' 'cuda/Device.Computes  # GetParam() = 1' "SKIPPED: no GPU: no driver$passes" --ci
judge 'cuda/Device.Computes: it failed as well' cuda/Device.Computes "SKIPPED: no GPU: no driver$passes"$'\n[  FAILED  ]' --ci
judge 'cuda/Device.Computes: it failed as well' cuda/Device.Computes $'SKIPPED: no GPU\n[  SKIPPED ] it' --ci
judge '' plan/Cbc.Fits "SKIPPED: built without CBC$passes"
judge 'plan/Cbc.Fits: built without CBC' plan/Cbc.Fits "SKIPPED: built without CBC$passes" --ci
judge 'pager/PagerTest.Serves/copy: the pager does not start' pager/PagerTest.Serves/copy "SKIPPED: the pager does not start$passes"
judge "cli/help: no reason given (a line 'SKIPPED: REASON')" cli/help ''
