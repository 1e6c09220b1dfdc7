#!/usr/bin/env bash
# YOLOv4 and YOLOv4-P6, which Debian's Darknet is too old for (mish, new coordinates), computed here and by
# OpenCV's DNN module: outputs of every section within a thousandth of its largest value, and the same boxes.
# Wants a Python with opencv-python-headless 4 (5 reads no Darknet networks): WEIGHTPAGER_OPENCV_PYTHON=/path/to/python,
# or python3 as it is.
set -euo pipefail
# shellcheck source=tests/ops/lib/outputs.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/outputs.sh"

PYTHON=${WEIGHTPAGER_OPENCV_PYTHON:-python3}
WEIGHTPAGER=${WEIGHTPAGER:-$WP_BUILD/tools/weightpager}
# OpenCV drops what is less probable. No two boxes overlap by more than 1: none is removed.
PROBABILITY_MIN=0.2
OVERLAP_MAX=1

compare() {
  local network=$1 side=$2
  say "$network, $side x $side"
  "$WEIGHTPAGER" model make --net "$network" -o "$SCRATCH" >"$SCRATCH/log" 2>&1 || fail "$(cat "$SCRATCH/log")"
  with_input_side "$side" <"$SCRATCH/$network.cfg" >"$SCRATCH/network.cfg"
  make_picture "$SCRATCH/picture.ppm" "$side" "$side"
  "$PYTHON" "$OPS_LIB/opencv_outputs.py" "$SCRATCH/network.cfg" "$SCRATCH/$network.weights" "$SCRATCH/picture.ppm" \
    "$PROBABILITY_MIN" "$SCRATCH/sections" "$SCRATCH/detections"
  "$PROGRAMS/compare_outputs" "$SCRATCH/network.cfg" "$SCRATCH/$network.weights" "$SCRATCH/picture.ppm" \
    "$SCRATCH/sections" "$SCRATCH/detections" "$PROBABILITY_MIN" "$OVERLAP_MAX" ||
    fail "$network: not as OpenCV computes it"
  rm -- "$SCRATCH/$network.weights"
}

main() {
  "$PYTHON" -c 'import cv2; cv2.dnn.readNetFromDarknet' 2>/dev/null ||
    skip "$PYTHON has no OpenCV 4: python3 -m venv DIR && DIR/bin/pip install 'opencv-python-headless<5'," \
      "then WEIGHTPAGER_OPENCV_PYTHON=DIR/bin/python"
  require_programs
  compare yolov4 96
  compare yolov4-p6 128
}

main "$@"
