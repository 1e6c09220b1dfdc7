#!/usr/bin/env bash
# Feeds every parser of files and of command line sizes with inputs that libFuzzer makes up, under
# AddressSanitizer and UBSan. Starts from tests/fuzz/corpus; what is found anew stays in the build
# folder. A finding leaves its input there, too, and its target fails.
#
#   tools/scripts/fuzz.sh                          a million executions for each target
#   tools/scripts/fuzz.sh --executions 20000 gguf_fuzz
#
# Needs clang: tools/install.sh --dev.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

EXECUTIONS=1000000
TARGETS=()
BUILD=$WP_ROOT/build/fuzz

all_targets() { basename -s .cc -a "$WP_ROOT"/tests/fuzz/*_fuzz.cc; }

read_options() {
  while (($#)); do
    case $1 in
      --executions) EXECUTIONS=${2:?--executions needs a number} && shift ;;
      -h | --help) usage && exit 0 ;;
      -*) fail "unknown option '$1': tools/scripts/fuzz.sh [--executions N] [TARGET…]" ;;
      *)
        [[ -e $WP_ROOT/tests/fuzz/$1.cc ]] || fail "no target '$1'; there are: $(all_targets | xargs)"
        TARGETS+=("$1")
        ;;
    esac
    shift
  done
}

# clang comes without libFuzzer and the sanitizers where only what it depends on was installed.
clang_can_fuzz() {
  have clang++ && echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null
}

build() {
  local log=$BUILD.log
  mkdir -p "$BUILD"
  if ! { cmake --preset fuzz && cmake --build "$BUILD" --target fuzz_targets; } >"$log" 2>&1; then
    tail -n 30 "$log"
    fail "the fuzz targets do not build, see $log"
  fi
}

# run TARGET: its corpus grows in the build folder; the seeds in the tree stay as they are.
run() {
  local target=$1 seeds=$WP_ROOT/tests/fuzz/corpus/${1%_fuzz} work=$BUILD/$1 log=$BUILD/$1/$$.log
  mkdir -p "$work/corpus" "$work/findings"
  # Inputs beyond a few KiB are slower and find no more: headers are lists of small things. What is freed
  # stays in quarantine; with the default of 256 MiB, much of the time goes into fresh memory.
  if ASAN_OPTIONS=quarantine_size_mb=8 "$BUILD/tests/fuzz/$target" -runs="$EXECUTIONS" -max_len=2048 -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$work/findings/" "$work/corpus" "$seeds" >"$log" 2>&1; then
    note "$target: $(awk '/number_of_executed_units/ { print $2 }' "$log") executions, no finding"
    return 0
  fi
  tail -n 40 "$log"
  note "FOUND by $target; to see it again: $BUILD/tests/fuzz/$target $work/findings/…"
  return 1
}

main() {
  read_options "$@"
  clang_can_fuzz || skip "clang++ with libFuzzer is not here (tools/install.sh --dev)"
  cd "$WP_ROOT"
  build
  ((${#TARGETS[@]} > 0)) || mapfile -t TARGETS < <(all_targets)
  local target found=0
  for target in "${TARGETS[@]}"; do
    run "$target" || found=$((found + 1))
  done
  ((found == 0)) || fail "$found of ${#TARGETS[@]} targets found something"
}

main "$@"
