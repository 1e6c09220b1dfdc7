#!/usr/bin/env bash
# Gathers what a machine with a GPU, many processors and nothing else of ours needs to test and measure:
# programs and the libraries that they are linked with, stripped and compressed, in build/gpu/programs.tar.xz.
# tools/scripts/gpu/run_all.sh unpacks and runs them there.
# That machine has its own C and C++ libraries, a GPU driver and cuBLAS.
#
#   cmake --build --preset release && tools/scripts/gpu/pack.sh
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/common.sh"

PROGRAMS=(tools/weightpager bench/cuda_alias bench/touching_threads)
# The tests on a GPU, and those of the threads that serve faults, read and compute.
TEST_FOLDERS=(cuda api attach control io pager pipeline serve shadow telemetry window)
# What every Linux with a C++ compiler has.
THEIRS='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so'
FOLDER=$WP_ROOT/build/gpu
ARCHIVE=$FOLDER/programs.tar.xz
# Of what travels.
MEBIBYTES_MAX=48
STAGE=$(mktemp -d)
trap 'rm -rf -- "$STAGE"' EXIT

# libraries PROGRAM: names and paths of those that it takes along.
libraries() {
  ldd "$1" | awk '$2 == "=>" {print $1, $3}' | grep -vE "$THEIRS" || true
}

main() {
  case ${1:-} in -h | --help) usage && exit 0 ;; esac
  rm -rf -- "$FOLDER"
  mkdir -p "$FOLDER" "$STAGE/bin" "$STAGE/lib/weightpager"
  local program name path
  for program in "${PROGRAMS[@]}" "${TEST_FOLDERS[@]/#/tests/test_}"; do
    [[ -x $WP_BUILD/$program ]] ||
      fail "$WP_BUILD/$program is not there: build it with cmake --build --preset release, where nvcc is"
    strip -o "$STAGE/bin/$(basename -- "$program")" "$WP_BUILD/$program"
    while read -r name path; do
      [[ -n $name ]] || continue
      [[ -e $path ]] || fail "$program needs $name, which is not here"
      [[ -e $STAGE/lib/$name ]] || strip -o "$STAGE/lib/$name" "$(readlink -f -- "$path")"
    done < <(libraries "$WP_BUILD/$program")
  done
  # What is loaded by name: the interposer, and the control socket's loop.
  for name in libweightpager_preload libweightpager-control; do
    strip -o "$STAGE/lib/weightpager/$name.so" "$WP_BUILD/pager/$name.so"
  done
  ln -s weightpager/libweightpager-control.so "$STAGE/lib/"
  for program in "$STAGE"/bin/*; do
    if LD_LIBRARY_PATH=$STAGE/lib ldd "$program" | grep -E 'not found|libcuda|libcublas|libcudart'; then
      fail "$program does not start on a machine without the libraries above"
    fi
  done
  ls -l "$STAGE/bin" "$STAGE/lib"
  tar -C "$STAGE" -cJf "$ARCHIVE" bin lib
  local size_mib
  size_mib=$(du -sm --apparent-size "$ARCHIVE" | cut -f1)
  ((size_mib <= MEBIBYTES_MAX)) || fail "$ARCHIVE has $size_mib MiB, more than $MEBIBYTES_MAX"
  say "$ARCHIVE: $size_mib MiB"
}

main "$@"
