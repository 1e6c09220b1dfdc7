#!/usr/bin/env bash
# Every section of Debian's own networks, computed here and by Debian's Darknet: inputs made of a picture, outputs
# within a thousandth of a section's largest value, and the same detections. Weights are random.
#
#   tests/ops/same_as_darknet.sh                     small pictures, so that each takes seconds
#   tests/ops/same_as_darknet.sh NETWORK SIDE …      networks of /usr/share/darknet/cfg, pictures of SIDE x SIDE
set -euo pipefail
# shellcheck source=tests/ops/lib/outputs.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/outputs.sh"

DARKNET=/usr/lib/darknet
CONFIGURATIONS=/usr/share/darknet/cfg
NETWORKS=(yolov3 96 yolov3-tiny 96 yolov3-spp 64 resnet50 64 resnet152 64 resnext50 64 densenet201 64 darknet19 96
  darknet53 64 alexnet 227 extraction 96 tiny 96 vgg-16 256)
# Random weights give boxes by the thousand. Of less sure ones there are so many that two overlapping boxes come to be
# equally probable but for rounding, which then decides which of them stays.
PROBABILITY_MIN=0.1

compare() {
  local network=$1 side=$2
  say "$network, $side x $side"
  with_input_side "$side" <"$CONFIGURATIONS/$network.cfg" >"$SCRATCH/network.cfg"
  "$PROGRAMS/make_weights" "$SCRATCH/network.cfg" "$SCRATCH/network.weights"
  "$SCRATCH/darknet_outputs" "$SCRATCH/network.cfg" "$SCRATCH/network.weights" "$SCRATCH/picture.ppm" \
    "$PROBABILITY_MIN" "$SCRATCH/sections" "$SCRATCH/detections" >"$SCRATCH/log" 2>&1 ||
    fail "Darknet itself failed on $network: $(tail -n 3 "$SCRATCH/log")"
  "$PROGRAMS/compare_outputs" "$SCRATCH/network.cfg" "$SCRATCH/network.weights" "$SCRATCH/picture.ppm" \
    "$SCRATCH/sections" "$SCRATCH/detections" "$PROBABILITY_MIN" 0.45 || fail "$network: not as Darknet computes it"
}

main() {
  [[ -e $DARKNET/libdarknet.so && -d $CONFIGURATIONS ]] || skip "Debian's Darknet is missing: tools/install.sh --peers"
  require_programs
  cc -w -O1 -I"$DARKNET/include" -o "$SCRATCH/darknet_outputs" "$OPS_LIB/darknet_outputs.c" -L"$DARKNET" -ldarknet \
    "-Wl,-rpath,$DARKNET"
  make_picture "$SCRATCH/picture.ppm" 150 110
  (($#)) || set -- "${NETWORKS[@]}"
  while (($# >= 2)); do
    compare "$1" "$2"
    shift 2
  done
}

main "$@"
