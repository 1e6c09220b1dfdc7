#!/usr/bin/env bash
# Links of documents lead somewhere, and what the code names in docs/ is there; lib/links.py finds what is not.
set -eu
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"
links=$WP_ROOT/tests/docs/lib/links.py
made=$(mktemp -d)
trap 'rm -rf -- "$made"' EXIT

mkdir -p "$made/docs" "$made/bench/results"
touch "$made/bench/results/2026-01-01-speed.json"
# shellcheck disable=SC2016  # backquotes of Markdown
printf '%s\n' '# One page' '## Its `--part`, once' '[gone](gone.md) [part](#its---part-once) [other](#other-part)' \
  'bench/results/2026-*-speed.json bench/results/2026-*-lost.json' >"$made/docs/page.md"
echo '// docs/page.md and docs/lost.md' >"$made/code.cc"
expected="code.cc: docs/lost.md is not there
docs/page.md: the link gone.md leads nowhere
docs/page.md: the link #other-part: no such heading leads nowhere
docs/page.md: bench/results/2026-*-lost.json is not there"
found=$("$links" "$made") && fail "links.py finds nothing in what was made for it"
[[ $found == "$expected" ]] || fail "links.py says '$found', not '$expected'"

"$links" || fail "these lead nowhere: mend them"
