#!/usr/bin/env bash
# Large anonymous mappings of an engine's own are served in a small window, and are the same as the kernel's. The
# engine (mapping_engine.cc) keeps its own account of every page; that account is first compared with the kernel
# alone.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../cli/lib/cli.sh"
require_interposer
ENGINE=$WP_BUILD/tests/mapping_engine
export XDG_CACHE_HOME=$SCRATCH/cache XDG_RUNTIME_DIR=$SCRATCH
# Not in $SCRATCH, which may lie in memory.
folder=$(mktemp -d -p "$PWD" mappings.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
head -c 50000003 /dev/urandom >"$folder/weights"

number() { jq "[.processes[] | .. | .$1? // empty] | max // 0" "$SCRATCH/run.json"; }

# served COMMAND…: in a window that is smaller than its mappings.
served() {
  weightpager run --window 48MiB --spill "$folder" --json "$SCRATCH/run.json" -- timeout -k 5 120 "$@"
  skip_for_lack "$ERR"
  if grep -q -e 'cannot move pages' -e 'no right to serve faults' "$ERR"; then skip "$(head -1 "$ERR")"; fi
  [[ $STATUS == 0 ]] || fail "$*: status $STATUS: $(cat "$ERR")"
  (($(number large_block_bytes_max) >= 16 << 20)) || fail "$*: was not served: $(cat "$ERR")"
  (($(number resident_bytes_max) <= 48 << 20)) || fail "$*: beyond the window: $(number resident_bytes_max)"
}

# same_as_by_the_kernel ARGUMENT…
same_as_by_the_kernel() {
  timeout -k 5 120 "$ENGINE" "$@" || fail "$*, by itself: status $?"
  served "$ENGINE" "$@"
  note "$*: as by the kernel"
}

same_as_by_the_kernel calls
same_as_by_the_kernel shared-pages
same_as_by_the_kernel reading "$folder/weights"
(($(number lazy_read_bytes) >= 40 << 20)) || fail "what is read into a mapping was read at once"
for seed in 1 2 3 4; do
  same_as_by_the_kernel random $seed 250
done
(($(number spill_written_bytes) > 0)) || fail "nothing was written"
same_as_by_the_kernel threads 1 120

# An allocator that only the engine knows, as programs bring one: its memory comes by mmap.
export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536
for library in libjemalloc.so.2 libmimalloc.so.2; do
  "$ENGINE" allocator "$library" >"$SCRATCH/alone" || continue
  same_as_by_the_kernel allocator "$library"
  (($(number large_block_bytes_max) >= 96 << 20)) || fail "$library: only $(number large_block_bytes_max) were served"
done
unset GLIBC_TUNABLES

# One that answers malloc for all: its large blocks are served by malloc.
library=$(ldconfig -p | awk '$1 == "libjemalloc.so.2" { print $NF; exit }')
if [[ $library ]] && python3 -c 'import numpy' 2>/dev/null; then
  cat >"$SCRATCH/arrays.py" <<'PYTHON'
import mmap, numpy

arrays = [numpy.full(2 << 20, i, dtype=numpy.float32) for i in range(16)]
own = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own[5] = 7
assert all((array == i).all() for i, array in enumerate(arrays)) and own[5] == 7
PYTHON
  LD_PRELOAD=$library served python3 "$SCRATCH/arrays.py"
  note "numpy, jemalloc preloaded: served"
fi

[[ $(ls -A "$folder") == weights ]] || fail "something is left in the folder: $(ls -A "$folder")"
