#!/usr/bin/env bash
# Traces: made, shown, converted there and back, refused when damaged.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

for kind in dense prompt moe drifting interleaved random; do
  weightpager trace make "$kind" --layers 4 --dense 16MiB --passes 4 -o "$SCRATCH/$kind.trace"
  expect_status 0
  weightpager trace convert "$SCRATCH/$kind.trace" -o "$SCRATCH/$kind.json"
  expect_status 0
  weightpager trace convert "$SCRATCH/$kind.json" -o "$SCRATCH/again.trace"
  expect_status 0
  cmp "$SCRATCH/$kind.trace" "$SCRATCH/again.trace" || fail "$kind: JSON lost something"
done

# Threads: in the same bytes again, told by `show`, and not for touches at random.
for division in '' --pieces; do
  # shellcheck disable=SC2086  # nothing is no word
  weightpager trace make dense --layers 4 --dense 15MiB --passes 2 --threads 3 $division -o "$SCRATCH/threads.trace"
  expect_status 0
  weightpager trace convert "$SCRATCH/threads.trace" -o "$SCRATCH/threads.json"
  weightpager trace convert "$SCRATCH/threads.json" -o "$SCRATCH/again.trace"
  cmp "$SCRATCH/threads.trace" "$SCRATCH/again.trace" || fail "threads$division: JSON lost something"
done
weightpager trace show "$SCRATCH/threads.trace"
grep -q 'by 3 threads together' "$OUT" || fail "$(cat "$OUT")"
weightpager trace make random --threads 3 -o "$SCRATCH/x.trace"
expect_status 2
expect_error "random touches are one thread's"

dense=$SCRATCH/dense.trace
weightpager trace show "$dense" --top 3
expect_status 0
grep -q '128 in 4 passes' "$OUT" || fail "$(cat "$OUT")"
[[ $(grep -cE '^ +[0-9]+ +0 ' "$OUT") == 3 ]] || fail "not three touches: $(cat "$OUT")"
weightpager trace stats "$dense"
expect_status 0
# The first pass reads all 64 MiB, the three others the half that does not fit.
grep -qE '50% +160.0 MiB' "$OUT" || fail "$(cat "$OUT")"
weightpager trace convert "$dense" -o "$SCRATCH/dense.csv"
[[ $(wc -l <"$SCRATCH/dense.csv") == 129 ]] || fail "touches are missing from the CSV"

head -c 100 "$dense" >"$SCRATCH/short.trace"
weightpager trace stats "$SCRATCH/short.trace"
expect_status 1
expect_error 'bytes follow the head, expected'
cp "$dense" "$SCRATCH/bad.trace"
printf '\377' | dd of="$SCRATCH/bad.trace" bs=1 seek=50 conv=notrunc 2>/dev/null
weightpager bench policies "$SCRATCH/bad.trace"
expect_status 1
expect_error 'do not match their checksum'
echo '{"name": "x"}' >"$SCRATCH/bad.json"
weightpager trace show "$SCRATCH/bad.json"
expect_status 1
expect_error 'not a trace'
weightpager trace show "$SCRATCH/none.trace"
expect_status 1
expect_error 'cannot be opened'

weightpager trace make sparse -o "$SCRATCH/x.trace"
expect_status 2
expect_error 'there are dense, prompt, moe, drifting, interleaved, random'
weightpager trace make dense
expect_status 2
expect_error '--output is missing'
weightpager trace make dense --layers 0 -o "$SCRATCH/x.trace"
expect_status 2
expect_error '--layers 0'
weightpager trace
expect_status 2
expect_error 'expected record, show, stats, convert or make'
