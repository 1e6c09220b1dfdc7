#!/usr/bin/env bash
# docs/reference/policies.md has a row for each name that --policy takes, and no other.
set -eu
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"

# names_of COMMAND…: what it offers in place of a policy that is none. `run` knows auto, `bench policies` belady.
names_of() {
  local said
  said=$("$WEIGHTPAGER" "$@" 2>&1) && fail "'weightpager $*' takes a policy that is none"
  sed -n 's/.*there are //p' <<<"$said" | sed 's/, /\n/g'
}

live=$(names_of run --window 64MiB --policy mru -- true)
simulated=$(names_of bench policies some.trace --policy mru)
[[ $live && $simulated ]] || fail "no names of policies are offered"
taken=$(printf '%s\n' "$live" "$simulated" | sort -u)
# shellcheck disable=SC2016  # backquotes of Markdown
documented=$(sed -n 's/^| `\([^`]*\)`.*/\1/p' "$WP_ROOT/docs/reference/policies.md" | sort)
[[ $documented == "$taken" ]] ||
  fail "policies.md against the names that --policy takes: $(diff <(echo "$documented") <(echo "$taken"))"
