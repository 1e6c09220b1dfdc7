#!/usr/bin/env bash
# Large blocks of memory, and files that are read into them, are the same under the interposer as by libc
# alone. The engine (allocating_engine.cc) checks what each call promises, and prints what it has read.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../cli/lib/cli.sh"
require_interposer
ENGINE=$WP_BUILD/tests/allocating_engine
INTERPOSER=$WP_BUILD/pager/libweightpager_preload.so
FILE=$SCRATCH/weights
head -c 50000003 /dev/urandom >"$FILE"
mkdir "$SCRATCH/spill"

# spilled OTHER_LIBRARY COMMAND…: with large blocks spilled.
spilled() {
  SPILLED=1 WEIGHTPAGER_WINDOW=$((256 << 20)) WEIGHTPAGER_SPILL=$SCRATCH/spill LD_PRELOAD=$INTERPOSER${1:+:$1} \
    timeout -k 5 120 "${@:2}" >"$OUT" 2>"$ERR" || fail "${*:2}, preloaded before '$1': status $?: $(cat "$ERR")"
}

# same_as_alone LIBRARY COMMAND…: LIBRARY is another allocator.
same_as_alone() {
  timeout -k 5 120 "${@:2}" >"$SCRATCH/alone" || fail "${*:2}, by itself: status $?"
  spilled "$@"
  cmp "$SCRATCH/alone" "$OUT" || fail "${*:2}, preloaded before '$1': other bytes"
}

for call in functions resizing reading shared-position fork threads short-lives; do
  same_as_alone "" "$ENGINE" "$call" "$FILE"
  note "$call: as by libc"
done

# Without a folder to spill to nothing changes: the blocks are libc's, which do not begin at pages.
WEIGHTPAGER_WINDOW=$((64 << 20)) LD_PRELOAD=$INTERPOSER "$ENGINE" not-spilled "$FILE" ||
  fail "large blocks are spilled, though nobody asked for it"

# Allocators that are preloaded, too. (What else they do in another way than libc is theirs.)
for library in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2 libtbbmalloc_proxy.so.2; do
  path=$(ldconfig -p | awk -v name="$library" '$1 == name { print $NF; exit }')
  [[ $path ]] || continue
  spilled "$path" "$ENGINE" reading "$FILE"
  note "$library: goes on working"
done

# An interpreter and its arrays.
if python3 -c 'import numpy' 2>/dev/null; then
  same_as_alone "" python3 "$WP_ROOT/tests/preload/lib/arrays.py" "$FILE"
  note "numpy: as by libc"
fi
