#!/usr/bin/env bash
# The FCN of SwapNet's self-driving set runs: the same maps from a small window as from memory.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

make_networks fcn-resnet101
net=$SCRATCH/fcn-resnet101
make_picture "$SCRATCH/picture.ppm"
# Its weights do not depend on the picture's size; a small one takes a second instead of many.
sed -E 's/^(width|height)=320$/\1=32/' "$net.cfg" >"$SCRATCH/small.cfg"

# maps OPTIONS…: the classes that are largest at most of the map's pixels.
maps() {
  weightpager infer "$SCRATCH/small.cfg" "$net.weights" "$SCRATCH/picture.ppm" "$@" --json "$SCRATCH/results.json"
  expect_status 0
  jq -c '[.pictures[].classes]' "$SCRATCH/results.json"
}

expected=$(maps --pipeline pre)
jq -e '.[0] | length == 5 and all(.class < 21) and (map(.probability) | add) <= 1.0001 and .[0].probability > 0.2' \
  <<<"$expected" >/dev/null || fail "not a map: $expected"
[[ $(maps --window 40MiB) == "$expected" ]] || fail "other maps from a window: $(cat "$SCRATCH/results.json")"
jq -e '.window_bytes <= 40 * 1048576 and .read_bytes > 200 * 1048576' "$SCRATCH/results.json" >/dev/null ||
  fail "not from a window: $(cat "$SCRATCH/results.json")"
