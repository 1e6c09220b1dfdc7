#!/usr/bin/env bash
# The flags reach the interposer as variables; those of an enclosing run do not.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

export WEIGHTPAGER_MATCH=outer WEIGHTPAGER_MAPPER=outer WEIGHTPAGER_PROFILE=outer
export WEIGHTPAGER_SPILL=outer WEIGHTPAGER_SPILL_FOR=outer WEIGHTPAGER_KEEP_COPIES=outer
variables() { grep '^WEIGHTPAGER_' "$OUT" | grep -vE '^WEIGHTPAGER_(BUILD|CACHE)=' | sed -E 's/_(DIR|ACCESS_PROFILES)=.*/_\1=/' | sort; }

# Whether readers are served depends on the machine.
engine env
! grep '=outer$' "$OUT" || fail "the enclosing run's"
[[ $(grep -c '^WEIGHTPAGER_SPILL=/' "$OUT") == $(grep -c '^WEIGHTPAGER_SPILL_FOR=readers$' "$OUT") ]] ||
  fail "one without the other: $(grep SPILL "$OUT")"

weightpager run --window 64MiB --no-spill -- env
expected=$'WEIGHTPAGER_ACCESS_PROFILES=\nWEIGHTPAGER_RUN_DIR=\nWEIGHTPAGER_WINDOW=67108864'
[[ $(variables) == "$expected" ]] || fail "the engine has: $(variables)"

weightpager run -w 1.5GiB -m '*.a,b' --match '*.c' --mapper copy --no-profile -q -- env
expected='WEIGHTPAGER_ACCESS_PROFILES=
WEIGHTPAGER_MAPPER=copy
WEIGHTPAGER_MATCH=*.a,b:*.c
WEIGHTPAGER_PROFILE=0
WEIGHTPAGER_QUIET=1
WEIGHTPAGER_RUN_DIR=
WEIGHTPAGER_WINDOW=1610612736'
[[ $(variables) == "$expected" ]] || fail "the engine has: $(variables)"
