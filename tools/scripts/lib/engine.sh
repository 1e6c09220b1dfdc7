# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# What the demo and the engine tests share: a synthetic model, the engine on it, and what the engine
# says. Source it after common.sh.

WEIGHTPAGER=${WEIGHTPAGER:-$WP_BUILD/tools/weightpager}
# Beyond the window and the engine's own memory, what a limit leaves for the kernel's tables, the stacks
# and the pager itself.
MEMORY_SLACK=$((64 << 20))

# Sets ENGINE_NODE and KEEP_MAPPED; 1 when the engine cannot be had here.
find_engine() {
  ENGINE_NODE=$("$WP_ROOT/tools/scripts/engine.sh" --node) &&
    KEEP_MAPPED=$("$WP_ROOT/tools/scripts/engine.sh" --keep-mapped)
}

# made_model NAME OPTIONS…: prints the file, made once with these options and kept in the cache.
made_model() {
  local file=$WP_CACHE/models/$1
  if [[ ! -e $file ]]; then
    say "making a Llama of random weights (once): $file" >&2
    mkdir -p "$WP_CACHE/models"
    "$WEIGHTPAGER" model make "${@:2}" -o "$file.part" >&2 && mv -- "$file.part" "$file" || return 1
  fi
  echo "$file"
}

# make_model 256MiB f16
make_model() { made_model "llama-$1-$2.gguf" --arch llama --size "$1" --type "$2"; }

# make_mixture 768MiB q8_0 8 2: of 8 experts a layer, of which a token uses 2.
make_mixture() {
  made_model "llama-moe-$1-$3x$4-$2.gguf" --arch llama-moe --size "$1" --type "$2" --experts "$3" --experts-used "$4"
}

# The engine's command line for a model, in ENGINE: engine_on FILE [MORE OPTIONS…]
engine_on() {
  local model=$1
  shift
  ENGINE=("$ENGINE_NODE" "$WP_ROOT/bench/engines/llama.mjs" --model "$model" "$@")
}

# The same engine with its weights left to the kernel's mmap (bench/engines/keep_mapped.c).
with_kernel_mmap() { env LD_PRELOAD="$KEEP_MAPPED" "$@"; }

# own_memory FILE: bytes the engine needs beside its mapped weights, measured with everything resident.
own_memory() {
  engine_on "$1" --tokens 2
  with_kernel_mmap "${ENGINE[@]}" | jq -e .rss_own_bytes
}
