# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# Calls the weightpager command and looks at what came of it. Source it.

# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../../tools/scripts/lib/common.sh"
# shellcheck source=tools/scripts/lib/picture.sh
source "$WP_ROOT/tools/scripts/lib/picture.sh"

WEIGHTPAGER=${WEIGHTPAGER:-$WP_BUILD/tools/weightpager}
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT
OUT=$SCRATCH/out
ERR=$SCRATCH/err
# An engine that leaves a mark, to tell whether it was started.
MARKER=$SCRATCH/engine-was-started
MARKING=(touch "$MARKER")

# weightpager ARGUMENTS…: leaves its exit status in STATUS, its output in $OUT and $ERR.
weightpager() {
  STATUS=0
  "$WEIGHTPAGER" "$@" >"$OUT" 2>"$ERR" || STATUS=$?
}

# For tests that start an engine. In builds with sanitizers the interposer needs the sanitizer's runtime,
# which refuses to come into a program that was built without it.
require_interposer() {
  ! grep -qs '^WP_SANITIZE:[A-Z]*=.' "$(dirname -- "$WEIGHTPAGER")/../CMakeCache.txt" ||
    skip "an interposer with sanitizers cannot go into ordinary programs"
}

# skip_for_lack FILE: ends the test as skipped if weightpager says in FILE that this machine lacks what the
# pager, or the mapper that was asked for, needs. Any other error is the test's to fail for.
skip_for_lack() {
  local said
  said=$(grep -m 1 -E 'userfaultfd is not available|needs UFFDIO_MOVE|needs userfaultfd for shared memory' "$1") || return 0
  skip "$said"
}

# await_server PID NAME FILE: until the server can be attached to; FILE has what it says on stderr.
await_server() {
  until grep -q "weightpager run --attach $2 -- ENGINE" "$3"; do
    kill -0 "$1" || {
      skip_for_lack "$3"
      fail "the server ended: $(cat "$3")"
    }
    sleep 0.02
  done
}

# require_programs NAME…: that this test calls.
require_programs() {
  local name
  for name in "$@"; do
    have "$name" || skip "$name is not installed: apt-get install $name"
  done
}
# What reports are read with.
require_programs jq

# make_llama SIZE FILE [OPTION…]: a Llama with made weights.
make_llama() {
  weightpager model make --size "$1" -o "$2" "${@:3}"
  expect_status 0
}

# make_networks NAME…: known networks with made weights, in $SCRATCH.
make_networks() {
  local net
  for net in "$@"; do
    weightpager model make --net "$net" -o "$SCRATCH"
    expect_status 0
  done
}

# engine COMMAND…: runs it under weightpager in some window.
engine() { weightpager run --window 64MiB -- "$@"; }

expect_status() {
  [[ $STATUS == "$1" ]] || fail "exit status $STATUS, expected $1; stderr: $(cat "$ERR")"
}

# expect_error TEXT: stderr is an error and at most one hint, and says TEXT.
expect_error() {
  [[ $(head -n 1 "$ERR") == "weightpager: error: "* ]] || fail "no error: $(cat "$ERR")"
  [[ $(wc -l <"$ERR") -le 2 ]] || fail "more than two lines: $(cat "$ERR")"
  grep -qF -- "$1" "$ERR" || fail "stderr does not say '$1': $(cat "$ERR")"
}

# expect_refusal TEXT: weightpager gave up before the engine had started.
expect_refusal() {
  expect_status 125
  expect_error "$1"
  [[ ! -e $MARKER ]] || fail "the engine was started all the same"
}

# doctor --json …: `weightpager doctor`, behind the words of UNDER (a filter, another user).
UNDER=()
doctor() {
  STATUS=0
  "${UNDER[@]}" "$WEIGHTPAGER" doctor "$@" >"$OUT" 2>"$ERR" || STATUS=$?
  jq -e .schema_version "$OUT" >/dev/null || fail "no report: $(cat "$OUT" "$ERR")"
}

# expect_row ID VERDICT [TEXT]: the report has that row, and its finding or cure says TEXT.
expect_row() {
  jq -e --arg id "$1" --arg verdict "$2" --arg text "${3:-}" \
    'any(.rows[]; .id == $id and .verdict == $verdict and ([.finding, .cure // ""] | any(contains($text))))' \
    "$OUT" >/dev/null || fail "no row $*: $(jq -c --arg id "$1" '.rows[] | select(.id == $id)' "$OUT")"
}
