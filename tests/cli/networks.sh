#!/usr/bin/env bash
# A Darknet network is made, shown and packed; what does not belong together is refused.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

expect_output() {
  expect_status 0
  grep -qF -- "$1" "$OUT" || fail "stdout does not say '$1': $(cat "$OUT")"
}
expect_failure() {
  expect_status 1
  expect_error "$1"
}
expect_misuse() {
  expect_status 2
  expect_error "$1"
}

net=$SCRATCH/squeezenet
weightpager model make --net squeezenet -o "$SCRATCH"
expect_output "$net.cfg, $net.weights: 4.7 MiB, 48 layers (26 with weights), input 3x224x224"
weightpager model make --net squeezenet -o "$SCRATCH"
expect_failure "$net.cfg: is there already"

weightpager model show "$net.cfg"
expect_output 'weights file  4.7 MiB (4942004 bytes)'
grep -qE '^    6  route +64x55x55 +128x55x55 +3, 5$' "$OUT" || fail "layer 6: $(cat "$OUT")"
weightpager model show --json "$net.cfg"
expect_output '"format": "darknet"'
[[ $(jq '[.layers[].folded_bytes] | add' "$OUT") == $(jq .folded_bytes "$OUT") ]] || fail "bytes do not add up"

weightpager model pack "$net.cfg" "$net.weights" -o "$net.packed"
expect_output "$net.packed: 4.8 MiB, 48 layers (26 with weights), the largest 2.0 MiB"
weightpager model pack "$net.cfg" "$net.weights" -o "$net.packed"
expect_failure "$net.packed: is there already"
before=$(cksum <"$net.packed")
weightpager model pack --force "$net.cfg" "$net.weights" -o "$net.packed"
expect_status 0
[[ $(cksum <"$net.packed") == "$before" ]] || fail "packed twice, the file is another"

truncate -s -4 "$net.weights"
weightpager model pack "$net.cfg" "$net.weights" -o "$SCRATCH/short.packed"
expect_failure "$net.weights, byte 4942000: expected more weights of layer 45 (convolutional, line"
[[ ! -e $SCRATCH/short.packed && ! -e $SCRATCH/short.packed.partial ]] || fail "half a file was left"
sed -i 's/^activation=relu/activation=tanh/' "$net.cfg"
weightpager model show "$net.cfg"
expect_failure "$net.cfg, line 13: expected one of linear, leaky, relu, logistic, mish, swish for activation"

weightpager model make --net yolov9 -o "$SCRATCH"
expect_misuse "there is no network 'yolov9' to make"
weightpager model make --net squeezenet --size 1GiB -o "$SCRATCH"
expect_misuse '--size: a network that is made by name has its own'
weightpager model make --net squeezenet
expect_misuse 'expected --net NAME and -o DIR'
weightpager model pack "$net.cfg" "$net.weights"
expect_misuse 'expected NET.cfg, NET.weights and -o FILE'
