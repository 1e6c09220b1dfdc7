#!/usr/bin/env bash
# Released llama.cpp with its default kernels, which copy weights into other layouts (AMX, CPU_REPACK), from a model that
# is mapped and from one that is read (useMmap: false): with --spill the greedy tokens are those of its own default run
# without weightpager, whichever of the package's libraries for processors computes.
#
#   tests/engine/spilled_same_tokens.sh                    the library that llama.cpp takes here, and AVX2's
#   tests/engine/spilled_same_tokens.sh LIBRARY TYPE …     libggml-cpu-LIBRARY.so, models of these types, all windows
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"
# shellcheck source=tests/engine/lib/spilled.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/spilled.sh"

SIZE=320MiB
# Threads that wait for each other by spinning take minutes where other programs run.
THREADS=1
LIBRARY= # "": the one that llama.cpp takes here

# An installation of the engine that has one library for processors, in WEIGHTPAGER_ENGINE. Links: it takes no room.
with_library() {
  local library=$1 installed=${ENGINE_NODE%%/node_modules/*} each
  LIBRARY=$library
  [[ -d $installed/node_modules ]] || installed=$WP_CACHE/engine
  export WEIGHTPAGER_ENGINE=$FOLDER/engine-$library
  [[ ! -d $WEIGHTPAGER_ENGINE ]] || return 0
  mkdir -- "$WEIGHTPAGER_ENGINE"
  cp -al "$installed/." "$WEIGHTPAGER_ENGINE" 2>/dev/null || cp -a "$installed/." "$WEIGHTPAGER_ENGINE"
  for each in "$WEIGHTPAGER_ENGINE"/node_modules/@node-llama-cpp/*/bins/*/libggml-cpu-*.so; do
    [[ $each == */libggml-cpu-$library.so ]] || rm -- "$each"
  done
}

# Whether this processor has what the library needs: without that llama.cpp finds no processor to compute with.
runs_here() {
  (with_library "$1" && engine_on "$2" --tokens 1 --threads "$THREADS" && "${ENGINE[@]}") >/dev/null 2>&1
}

# check_type TYPE PERCENT…
check_type() {
  local type=$1 model own_bytes reading
  shift
  model=$(make_model "$SIZE" "$type") || fail "no model could be made"
  own_bytes=$(own_memory "$model")
  for reading in '' --no-mmap; do
    say "$type ${reading:-mapped} ${LIBRARY:-as llama.cpp chooses}"
    engine_on "$model" --tokens 6 --threads "$THREADS" ${reading:+"$reading"}
    # Not all of a model is copied.
    expect_spilled "$model" $(($(stat -Lc %s "$model") * 9 / 10)) "$own_bytes" "${ENGINE[@]}"
    check_windows "$@"
  done
}

main() {
  require_engine
  require_spilling
  if (($#)); then
    with_library "$1"
    shift
    for type in "$@"; do check_type "$type" 12 25 50 110; done
    return
  fi
  check_type q4_0 25 110
  for type in q4_k f16; do check_type "$type" 25; done
  runs_here haswell "$(make_model "$SIZE" q4_0)" || return 0
  with_library haswell
  check_type q4_0 25
}

main "$@"
