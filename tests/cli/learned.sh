#!/usr/bin/env bash
# --policy learned: the next run begins with what this one learned, and with nothing if that is damaged.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3

export XDG_CACHE_HOME=$SCRATCH/cache
model=$SCRATCH/model.gguf
make_llama 200MiB "$model"
# Goes through the file in an order of its own, as often as it is told, and says what it read.
cat >"$SCRATCH/engine.py" <<'PYTHON'
import mmap, random, sys, zlib
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
chunks = list(range(len(weights) // (2 << 20)))
random.Random(1).shuffle(chunks)
sums = []
for sweep in range(int(sys.argv[2])):
    sums.append(0)
    for chunk in chunks:
        sums[-1] = zlib.crc32(weights[chunk * (2 << 20) : (chunk + 1) * (2 << 20)], sums[-1])
assert len(set(sums)) == 1
print(sums[0])
PYTHON

# run PASSES [OPTION…]: leaves the run's numbers in $SCRATCH/run.json.
run() {
  local passes=$1
  shift
  weightpager run --window 64MiB --json "$SCRATCH/run.json" "$@" -- \
    python3 "$SCRATCH/engine.py" "$model" "$passes"
  expect_status 0
  [[ ! -e $SCRATCH/sum ]] || cmp "$SCRATCH/sum" "$OUT" || fail "other bytes"
  cp "$OUT" "$SCRATCH/sum"
}
counter() { jq ".processes[0].$1" "$SCRATCH/run.json"; }

run 1 --policy learned
unprofiled=$(counter faults_demand)
echo "first pass, no access profile: $unprofiled demand faults, $(counter read_bytes) bytes read, $(counter stall_ns) ns stalled"
rm -rf "$XDG_CACHE_HOME"
run 6 --policy learned
kept=("$XDG_CACHE_HOME"/weightpager/learned-*.json)
jq -e --arg model "$model" '.weightpager_access_profile == 1 and .files[0].name == $model and (.pass | length > 20)' \
  "${kept[0]}" >/dev/null || fail "no access profile: $(cat "${kept[0]}")"

run 1 --policy learned
[[ $(counter access_profile_chunks) -gt 50 ]] || fail "nothing known: $(cat "$ERR")"
[[ $(counter faults_demand) -lt $((unprofiled / 2)) ]] ||
  fail "$(counter faults_demand) demand faults in the first pass, $unprofiled without an access profile"
echo "with the access profile: $(counter faults_demand) demand faults, $(counter read_bytes) bytes read, $(counter stall_ns) ns stalled"
grep -q '^  learned ' "$ERR" || fail "not told of: $(cat "$ERR")"
run 1
[[ $(jq -r '.processes[0].policy' "$SCRATCH/run.json") == learned ]] || fail "auto did not begin with it"
run 1 --policy lru
[[ $(counter access_profile_chunks) == 0 ]] || fail "lru was given an access profile"

# Another model of the same name is another model.
make_llama 180MiB "$model.new"
mv "$model" "$model.old"
mv "$model.new" "$model"
rm "$SCRATCH/sum"
run 1 --policy learned
[[ $(counter access_profile_chunks) == 0 ]] || fail "the access profile of another model was used"
mv "$model.old" "$model"
rm "$SCRATCH/sum"
run 1 --policy learned
[[ $(counter access_profile_chunks) -gt 50 ]] || fail "forgotten"

printf '{' >"${kept[0]}"
run 1 --policy learned
grep -qF "${kept[0]}, byte " "$ERR" || fail "no notice: $(cat "$ERR")"
[[ $(counter access_profile_chunks) == 0 && $(counter faults_demand) -gt $((unprofiled / 2)) ]] || fail "a damaged access profile was used"
# The next one that learns mends it.
run 6 --policy learned
jq -e .weightpager_access_profile "${kept[0]}" >/dev/null || fail "not mended"
[[ -z $(find "$XDG_CACHE_HOME" -type f ! -name 'learned-*.json') ]] || fail "left behind: $(find "$XDG_CACHE_HOME")"

# A user without a cache directory learns from pass to pass, as before.
unset XDG_CACHE_HOME HOME
run 4 --policy learned
[[ $(counter access_profile_chunks) == 0 ]] || fail "an access profile was found where none is kept"
