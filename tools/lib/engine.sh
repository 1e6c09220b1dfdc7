# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# What the demo and the engine tests share: a synthetic model, the engine on it, and what the engine
# says. Source it after common.sh.

WEIGHTPAGER=${WEIGHTPAGER:-$WP_BUILD/tools/weightpager}
# Beyond the window and the engine's own memory, what a limit leaves for the kernel's tables, the stacks
# and the pager itself.
MEMORY_SLACK=$((64 << 20))

# Sets ENGINE_NODE and KEEP_MAPPED; 1 when the engine cannot be had here.
find_engine() {
  ENGINE_NODE=$("$WP_ROOT/tools/engine.sh" --node) &&
    KEEP_MAPPED=$("$WP_ROOT/tools/engine.sh" --keep-mapped)
}

# make_model 256MiB f16: prints the file, made once and kept in the cache.
make_model() {
  local size=$1 type=$2 file=$WP_CACHE/models/llama-$1-$2.gguf
  if [[ ! -e $file ]]; then
    say "making a $size Llama of random $type weights (once): $file" >&2
    mkdir -p "$WP_CACHE/models"
    "$WEIGHTPAGER" model make --arch llama --size "$size" --type "$type" -o "$file.part" >&2 &&
      mv -- "$file.part" "$file" || return 1
  fi
  echo "$file"
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
