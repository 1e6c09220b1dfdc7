#!/usr/bin/env bash
# The paper's four delays of YOLOv4 on its board, from the network's description alone.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

make_networks yolov4
# What the board's disk reads: 4201 MiB/s.
weightpager bench simulate "$SCRATCH/yolov4.cfg" --kernels 160.8 --disks 4.405 --windows 4MiB,64KiB
expect_status 0
row=$(grep -E '^ +4\.405 ' "$OUT") || fail "no row: $(cat "$OUT")"
# within VALUE EXPECTED: to 2 %.
within() { awk -v value="$1" -v expected="$2" 'BEGIN { exit !(value > 0.98 * expected && value < 1.02 * expected) }'; }
read -r _ seq sync async two_stage _ _ _ _ tiles overlay too_small overlay_too_small <<<"$row"
within "$seq" 244.7 || fail "Seq $seq, in the paper 244.7"
within "$sync" 198.9 || fail "Sync $sync, in the paper 198.9"
within "$async" 181.2 || fail "Async $async, in the paper 181.2"
within "$two_stage" 195.3 || fail "2S $two_stage, in the paper 195.3"
awk -v tiles="$tiles" -v whole="$two_stage" 'BEGIN { exit !(tiles > 160.8 && tiles < whole) }' ||
  fail "2S with tiles of 2 MiB in 4 MiB: $tiles, whole layers in 18 MiB: $two_stage"
awk -v overlay="$overlay" -v tiles="$tiles" 'BEGIN { exit !(overlay >= 160.8 && overlay < tiles) }' ||
  fail "2S with tiles of 2 MiB in 4 MiB: $tiles, with the arena overlay $overlay"
[[ $too_small == - && $overlay_too_small == - ]] || fail "a window smaller than 16 channels: $too_small"

# The file has the same delays, to the nanosecond, and null where a window is too small.
weightpager bench simulate "$SCRATCH/yolov4.cfg" --kernels 160.8 --disks 4.405,1 --windows 4MiB,64KiB --json "$SCRATCH/it.json"
expect_status 0
in_file=$(jq -r '.disks[0].least_memory[] | "\(.pipeline) \(.window_bytes / 1048576 | round) \(.delay_ns / 1e5 | round / 10)"' "$SCRATCH/it.json")
expected="sequential 36 $seq
synchronous 44 $sync
asynchronous 36 $async
two-stage 18 $two_stage"
[[ $in_file == "$expected" ]] || fail "the file has $in_file, the table $expected"
jq -e '(.disks | length) == 2 and .disks[1].disk_gb_per_s == 1 and .disks[0].tiled[1].with_overlay_ns == null and
  .disks[0].tiled[0].with_overlay_ns < .disks[0].tiled[0].without_overlay_ns and .schema_version == 1' "$SCRATCH/it.json" >/dev/null ||
  fail "$(cat "$SCRATCH/it.json")"

weightpager bench simulate "$SCRATCH/yolov4.cfg"
expect_status 2
expect_error '--kernels is missing'
weightpager bench simulate "$SCRATCH/yolov4.cfg" --kernels 160.8 --disks 1,-1
expect_status 2
expect_error "--disks -1: expected a number from 1e-06 to 1000000"
weightpager bench simulate "$SCRATCH/none.cfg" --kernels 160.8
expect_status 1
