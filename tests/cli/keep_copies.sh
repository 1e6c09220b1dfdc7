#!/usr/bin/env bash
# --spill DIR --keep-copies DIR2: a second start of an engine that writes the same memory finds it, and writes next to
# nothing; the engine's bytes are its own in both. What cannot work is refused before the engine starts.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3

export XDG_CACHE_HOME=$SCRATCH/cache XDG_RUNTIME_DIR=$SCRATCH
# Not in $SCRATCH, which may lie in memory.
folder=$(mktemp -d -p "$PWD" keep-copies.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
mkdir "$folder/spill"
kept=$folder/kept
cat >"$SCRATCH/engine.py" <<'PYTHON'
import hashlib, sys

MiB = 1 << 20
# "Repacked": made from a seed, the same at each start. More than the window, several times over.
seed = sys.argv[1].encode()
weights = []
for i in range(12):
    block = bytearray(8 * MiB)
    for part in range(0, len(block), MiB):
        block[part:part + MiB] = hashlib.shake_128(seed + b"%d %d" % (i, part)).digest(MiB)
    weights.append(block)
# Activations: other bytes in every pass, and at every start.
with open("/dev/urandom", "rb") as random:
    activations = bytearray(random.read(8 * MiB))
for turn in range(4):
    digest = hashlib.sha256()
    for block in weights:
        digest.update(block)
    for at in range(0, len(activations), 4096):
        activations[at] ^= block[at]
print(digest.hexdigest())
PYTHON
engine=(python3 "$SCRATCH/engine.py")
number() { jq "[.processes[] | .$1] | add" "$SCRATCH/run.json"; }

# start SEED: runs the engine, and leaves the report.
start() {
  weightpager run --window 40MiB --spill "$folder/spill" --keep-copies "$kept" --json "$SCRATCH/run.json" -- \
    "${engine[@]}" "$1"
  skip_for_lack "$ERR"
  if grep -q -e 'cannot move pages' -e 'no right to serve faults' "$ERR"; then skip "$(head -1 "$ERR")"; fi
  [[ $STATUS == 0 ]] || fail "the engine failed: $(cat "$ERR")"
  cmp "$OUT" "$SCRATCH/plain-$1" || fail "other bytes"
  grep -q '^  copies    ' "$ERR" || fail "no row of what was kept: $(cat "$ERR")"
  (($(number resident_bytes_max) <= 40 << 20)) || fail "beyond the window: $(number resident_bytes_max)"
  [[ $(number read_errors) == 0 && $(number spill_errors) == 0 ]] || fail "errors: $(cat "$ERR")"
}

for seed in one two; do "${engine[@]}" "$seed" >"$SCRATCH/plain-$seed"; done
start one
first=$(number spill_written_bytes)
((first >= 56 << 20)) || fail "the first start wrote $first bytes only"
(($(number spill_kept_bytes) >= 56 << 20)) || fail "the first start kept $(number spill_kept_bytes) bytes only"
note "first start: written $first, found $(number spill_found_bytes), kept $(number spill_kept_bytes)"

start one
note "second start: written $(number spill_written_bytes), found $(number spill_found_bytes)"
(($(number spill_found_bytes) >= 48 << 20)) || fail "found $(number spill_found_bytes) bytes only"
# Activations: they leave once or twice in each of four turns.
(($(number spill_written_bytes) <= 96 << 20)) || fail "written again: $(number spill_written_bytes) of $first"
(($(number spill_kept_bytes) <= 24 << 20)) || fail "kept again: $(number spill_kept_bytes)"
[[ -z $(ls -A "$folder/spill") ]] || fail "something is left in the folder of --spill"
[[ $(stat -c %a "$kept") == 700 ]] || fail "the folder is not its owner's alone"
[[ -z $(find "$kept" -type f ! -perm 600) ]] || fail "files that are not their owner's alone: $(ls -l "$kept")"

# Other weights, and bytes that are damaged.
start two
for file in "$kept"/*.chunks; do
  dd if=/dev/urandom of="$file" bs=1M count=64 conv=notrunc status=none
done
start one
grep -q 'is not what its index says' "$ERR" || fail "nothing is said of the damage: $(cat "$ERR")"

# refused PATTERN OPTION…: the run is refused with that text, and a cure.
refused() {
  local pattern=$1
  shift
  weightpager run --window 48MiB "$@" -- "${MARKING[@]}"
  [[ $STATUS == 125 ]] || fail "$*: not refused"
  grep -q -e "$pattern" "$ERR" || fail "$*: $(cat "$ERR")"
  grep -q '^hint: ' "$ERR" || fail "$*: no cure"
  [[ ! -e $MARKER ]] || fail "$*: the engine was started"
}
refused 'keep-copies needs --spill' --keep-copies "$kept"
refused 'No such file' --spill "$folder/spill" --keep-copies "$folder/no/where"
chmod 770 "$kept"
refused 'others may write there' --spill "$folder/spill" --keep-copies "$kept"
chmod 700 "$kept"
if [[ $(stat -f -c %T /dev/shm) == tmpfs ]]; then
  mkdir -m 700 "/dev/shm/weightpager-kept.$$"
  refused 'its file system is in memory' --spill "$folder/spill" --keep-copies "/dev/shm/weightpager-kept.$$"
  rmdir "/dev/shm/weightpager-kept.$$"
fi
