#!/usr/bin/env bash
# Looks for faults with clang-tidy (.clang-tidy says for which), without a build: the files of a folder together, which
# parses what they include once. Takes some minutes; `tools/test.sh --all` runs it.
#
#   tools/scripts/tidy.sh                      everything
#   tools/scripts/tidy.sh FOLDER…              runtime/plan, for example
#   tools/scripts/tidy.sh --deep [FOLDER…]     Clang's static analyzer, too, on one file after the other: half an hour
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

DEEP=false FOLDERS=()

read_options() {
  while (($#)); do
    case $1 in
      --deep) DEEP=true ;;
      -h | --help) usage && exit 0 ;;
      -*) fail "unknown option '$1': tools/scripts/tidy.sh [--deep] [FOLDER…]" ;;
      *) FOLDERS+=("${1%/}") ;;
    esac
    shift
  done
  have clang-tidy || skip "clang-tidy is not installed: tools/install.sh --dev"
}

# Where nothing is built, the headers that a build makes are missing, and Clang has no OpenMP of its own.
make_headers() {
  echo '#define WP_COMMIT "tidy"' >"$WORK/commit.h"
  sed 's/@WP_LIVE_PAGE@//' "$WP_ROOT/pager/control/live_page.h.in" >"$WORK/live_page.h"
  sed 's/__malloc__ ([^)]*)/__malloc__/' "$(g++ -print-file-name=include/omp.h)" >"$WORK/omp.h"
}

sources_of() {
  find "$1" -maxdepth 1 -name '*.cc' ! -name no_cbc.cc ! -name no_cuda.cc | LC_ALL=C sort |
    if [[ -e $CUDA/cuda_runtime_api.h ]]; then cat; else grep -v '/cuda/' || true; fi
}

# Files that are looked at: one for each folder, but in tools/, where files call things alike, one for each source.
make_units() {
  local folder source
  for folder in "${FOLDERS[@]}"; do
    for source in $(sources_of "$folder"); do
      if $DEEP || [[ $folder == tools* ]]; then
        echo "$WP_ROOT/$source"
      else
        echo "#include \"$source\"" >>"$WORK/${folder//\//_}.cc"
      fi
    done
  done
  find "$WORK" -name '*.cc'
}

main() {
  read_options "$@"
  cd -- "$WP_ROOT"
  CUDA=${CUDA_HOME:-/usr/local/cuda}/include
  ((${#FOLDERS[@]})) ||
    mapfile -t FOLDERS < <(find pager runtime tools -name '*.cc' -printf '%h\n' | LC_ALL=C sort -u)
  WORK=$(mktemp -d)
  trap 'rm -rf -- "$WORK"' EXIT
  make_headers
  local units
  mapfile -t units < <(make_units)
  local arguments=(--quiet --config-file=.clang-tidy)
  ! $DEEP || arguments+=('--checks=clang-analyzer-*')
  # clang-tidy counts on stderr what it does not show.
  printf '%s\0' "${units[@]}" | xargs -0 -P "$(nproc)" -I{} clang-tidy "${arguments[@]}" {} -- \
    -std=c++20 -fopenmp -I"$WP_ROOT" -Ipager/include -I"$WORK" -isystem /usr/include/eigen3 -isystem /usr/include/stb \
    -isystem /usr/include/coin -isystem "$CUDA" \
    -DFMT_HEADER_ONLY '-DWP_VERSION="tidy"' '-DWP_LIBURING_VERSION="tidy"' 2>"$WORK/counts" || {
    grep 'error:' "$WORK/counts" >&2 || true
    fail "clang-tidy finds faults (above): mend them"
  }
}

main "$@"
