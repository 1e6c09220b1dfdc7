#!/usr/bin/env bash
# Engines that read their weights into memory, convert them, or copy them into another layout: torch.load without mmap,
# safetensors through NumPy, transformers in float32 from a file in bfloat16, ONNX Runtime with its prepacking,
# CTranslate2, Debian's Darknet. That memory is paged, and what they compute has the same bits. Engines that read
# need no --spill, unless they ask for the memory before they open the file, as Darknet does. Where a file's name is not
# known, --match tells that it is a model.
#
#   tests/engine/spilled_copies_same_output.sh [ENGINE …]    all, or these of the six below
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"
# shellcheck source=tests/engine/lib/spilled.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/spilled.sh"
# shellcheck source=tools/scripts/lib/darknet.sh
source "$WP_ROOT/tools/scripts/lib/darknet.sh"

# What the engines need beside their weights is what is anonymous without --spill, less the weights. Of small models some
# matrices have less than 4 MiB, which are not served.
# check_copies MODEL_FILE TIMES ENGINE…: so many times as many bytes as the file has.
check_copies() {
  local held=$(($(stat -Lc %s "$1") * $2))
  expect_spilled "$1" $((held * 8 / 10)) 0 "${@:3}"
  MODEL_BYTES=$held
  OWN_BYTES=$(jq --argjson held "$held" '[.rss_anon_bytes - $held, 0] | max' "$EXPECTED")
  check_windows 25 50
}

# Threads that wait for each other by spinning take minutes where other programs run.
check_python() {
  check_copies "$1" "$2" "$PYTHON" "$ENGINES/$3" --passes 3 --threads 1 "${@:4}"
}

check_engine() {
  local model
  say "$1"
  case $1 in
    torch_load) RUN_OPTIONS=() ;;
    ctranslate2) RUN_OPTIONS=(--match model.bin) ;;
    *) RUN_OPTIONS=(--spill "$FOLDER") ;;
  esac
  case $1 in
    torch_load)
      model=$(torch_checkpoint) && check_python "$model" 1 torch_load_mmap.py --no-mmap --model "$model" ;;
    safetensors_numpy)
      model=$(bf16_llama)/model.safetensors && check_python "$model" 1 torch_safetensors.py --numpy --model "$model" ;;
    transformers_float32)
      model=$(bf16_llama) &&
        check_python "$model/model.safetensors" 2 transformers_lm.py --dtype float32 --model "$model" ;;
    onnxruntime)
      model=$(onnx_chain) && check_python "$model.data" 1 onnxruntime_external.py --model "$model" ;;
    ctranslate2)
      model=$(ctranslate2_model) && check_python "$model/model.bin" 1 ctranslate2_lm.py --model "$model" ;;
    darknet)
      find_darknet || { note "left out: tools/install.sh --peers brings Debian's Darknet" && return; }
      model=$(darknet_network) &&
        check_copies "$model/network.weights" 1 "$DARKNET_PASSES" "$model/network.cfg" "$model/network.weights" 3 ;;
    *) fail "no engine '$1' here" ;;
  esac
}

main() {
  local engine
  require_python
  require_spilling
  export TMPDIR=$FOLDER
  (($#)) || set -- torch_load safetensors_numpy transformers_float32 onnxruntime ctranslate2 darknet
  for engine in "$@"; do check_engine "$engine"; done
}

main "$@"
