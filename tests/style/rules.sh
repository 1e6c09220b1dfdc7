#!/usr/bin/env bash
# The code and the documents keep the rules that lib/rules.py knows; and it finds a breach of each.
set -eu
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"
rules=$WP_ROOT/tests/style/lib/rules.py
made=$(mktemp -d)
trap 'rm -rf -- "$made"' EXIT

# lines COUNT TEXT: TEXT with the numbers from 1 on in place of its @.
lines() {
  local number
  for ((number = 1; number <= $1; ++number)); do echo "${2//@/$number}"; done
}

make_breaches() {
  mkdir -p "$made/pager/io" "$made/pager/model" "$made/runtime/plan" "$made/docs" "$made/tools/cli"
  {
    echo '#include "runtime/plan/large.h"'
    echo 'namespace weightpager {'
    echo 'int main() {'
    lines 70 '  work_@();'
    echo '}'
    echo '}'
  } >"$made/pager/main.cc"
  {
    echo 'namespace weightpager {'
    echo 'class Large {'
    lines 41 '  int step_@();'
    lines 26 '  int field_@_;'
    echo '};'
    echo 'struct Twice {};'
    echo 'std::mutex mutex;'
    echo 'TEST(Large, IsLarge) { GTEST_SKIP(); }'
    echo '}'
  } >"$made/runtime/plan/large.h"
  printf '%s\n' '#include "pager/model/model.h"' 'namespace weightpager { struct Twice {}; }' >"$made/pager/io/reader.h"
  printf '%s\n' '#include "pager/io/reader.h"' >"$made/pager/model/model.h"
  printf '%s\n' '#include "tools/commands/run/run.h"' >"$made/tools/cli/cli.h"
  touch "$made/tools/stray.cc"
  { lines 24 'word_@ ' | tr -d '\n' && echo; } >"$made/docs/wide.md"
}

# expect_breach TEXT: rules.py says it of what was made.
expect_breach() { grep -qF -- "$1" <<<"$found" || fail "rules.py does not find '$1' in what was made for it: $found"; }

make_breaches
printf '%s\n' 'name-twice Twice as it should be' 'name-twice Never as it need not be' >"$made/exceptions"
found=$("$rules" --exceptions "$made/exceptions" "$made") && fail "rules.py finds nothing in what was made for it"
expect_breach 'function-lines: main has 72 lines'
expect_breach 'class-methods: Large has 41 methods'
expect_breach 'class-fields: Large has 26 fields'
expect_breach 'uncalled: nothing but tests calls step_41'
expect_breach 'include: pager/ includes runtime/plan/large.h'
expect_breach 'include: pager/io is ground floor and includes pager/model/model.h'
expect_breach 'include: pager/io includes pager/model which includes pager/io'
expect_breach 'include: tools/cli stands below tools/commands'
expect_breach 'room: it is in no room of tools/'
expect_breach 'mutex: '
expect_breach 'skip: '
expect_breach 'columns: '
expect_breach 'Never: nothing needs this exception'
[[ $found != *'is the name of another type'* ]] || fail "rules.py takes no exception: $found"

"$rules" || fail "these are against the rules; mend them (tests/style/exceptions.txt is for what cannot be mended yet)"
