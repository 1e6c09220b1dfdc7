#!/usr/bin/env bash
# --spill DIR: memory that an engine reads a file into, and memory that it writes itself, are served in a window
# that is smaller than either. What cannot work is refused before the engine starts.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3

export XDG_CACHE_HOME=$SCRATCH/cache XDG_RUNTIME_DIR=$SCRATCH
# Not in $SCRATCH, which may lie in memory.
folder=$(mktemp -d -p "$PWD" spill.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
head -c 96M /dev/urandom >"$folder/weights.bin"
cat >"$SCRATCH/engine.py" <<'PYTHON'
import hashlib, os, sys

MiB = 1 << 20

# Read: the bytes are the file's, whenever they are looked at.
read = bytearray(96 * MiB)
with open(sys.argv[1], "rb", buffering=0) as file:
    assert file.readinto(read) == len(read)
    # From a byte on that is no page's first.
    odd = bytearray(32 * MiB)
    file.seek(40)
    assert file.readinto(odd) == len(odd)
print(hashlib.sha256(read).hexdigest())
expected = read[40:40 + len(odd)]

# Written: blocks that do not fit into the window together.
blocks = [bytearray(bytes([i + 1]) * (8 * MiB)) for i in range(12)]
for _ in range(2):
    assert all(block.count(i + 1) == 8 * MiB for i, block in enumerate(blocks))
# A child has them, too, and its parent goes on.
child = os.fork()
if child == 0:
    os._exit(0 if odd == expected and all(block.count(i + 1) == 8 * MiB for i, block in enumerate(blocks)) else 1)
blocks[3][5] = 77
assert os.waitpid(child, 0)[1] == 0
assert blocks[3].count(4) == 8 * MiB - 1
# The engine changes the file that it has read.
with open(sys.argv[1], "r+b") as file:
    file.truncate(MiB)
    file.write(b"other bytes")
assert odd == expected
print(hashlib.sha256(read).hexdigest())
PYTHON
engine=(python3 "$SCRATCH/engine.py" "$folder/weights.bin")
cp "$folder/weights.bin" "$SCRATCH/weights.bin"
"${engine[@]}" >"$SCRATCH/plain"
cp "$SCRATCH/weights.bin" "$folder/weights.bin"

weightpager run --window 48MiB --spill "$folder" --json "$SCRATCH/run.json" -- "${engine[@]}"
skip_for_lack "$ERR"
if grep -q -e 'cannot move pages' -e 'no right to serve faults' "$ERR"; then skip "$(head -1 "$ERR")"; fi
[[ $STATUS == 0 ]] || fail "the engine failed: $(cat "$ERR")"
cmp "$OUT" "$SCRATCH/plain" || fail "other bytes"
grep -q '^  spilled   ' "$ERR" || fail "no row of what was spilled: $(cat "$ERR")"
[[ $(ls -A "$folder") == weights.bin ]] || fail "something is left in the folder: $(ls -A "$folder")"
number() { jq "[.processes[] | .. | .$1? // empty] | max" "$SCRATCH/run.json"; }
(($(number resident_bytes_max) <= 48 << 20)) || fail "beyond the window: $(number resident_bytes_max)"
(($(number spill_written_bytes) > 0)) || fail "nothing was written"
(($(number lazy_read_bytes) >= 90 << 20)) || fail "read at once: $(number lazy_read_bytes)"

# refused PATTERN OPTION…: the run is refused with that text, and a cure.
refused() {
  local pattern=$1
  shift
  weightpager run "$@" -- "${MARKING[@]}"
  [[ $STATUS == 125 ]] || fail "$*: not refused"
  grep -q -e "$pattern" "$ERR" || fail "$*: $(cat "$ERR")"
  grep -q '^hint: ' "$ERR" || fail "$*: no cure"
  [[ ! -e $MARKER ]] || fail "$*: the engine was started"
}
refused 'nowhere: No such file' --window 48MiB --spill "$folder/nowhere"
refused 'spill and --mapper copy exclude each other' --window 48MiB --spill "$folder" --mapper copy
refused 'spill exclude each other' --spill "$folder" --attach NAME
if [[ $(stat -f -c %T /dev/shm) == tmpfs ]]; then refused 'its file system is in memory' --window 48MiB --spill /dev/shm; fi
