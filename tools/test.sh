#!/usr/bin/env bash
# Everything that can be checked on this machine: installs what is missing, builds, runs every test,
# runs the folders' tests again under AddressSanitizer + UBSan and under ThreadSanitizer, and checks the
# scripts. Ends with one line, 'N passed, N failed, N skipped', and fails when anything failed. A test
# that needs what this machine lacks is skipped and says why; skips that tests/skips.txt does not list
# are failures.
#
#   tools/test.sh           what CI runs, in half an hour on two processors
#   tools/test.sh --ci      fails, too, for what CI's machine has and this one lacks (tests/skips.txt)
#   tools/test.sh --all     also what takes minutes and says little that the rest does not: Linux 6.12, clang-tidy
#   tools/test.sh --fast    without the sanitizers
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/scripts/lib/common.sh"
# shellcheck source=tools/scripts/lib/build.sh
source "$WP_ROOT/tools/scripts/lib/build.sh"

JOBS=$(nproc)
# Many tests wait for a disk or a clock: twice as many at once as there are processors.
TESTS_AT_ONCE=$((2 * JOBS))
# Sanitizers look at what is C++ and ours: the folders' test programs (UBSan at what they test, not at the
# tests). ThreadSanitizer only where there are threads of ours: in ops and infer they are OpenMP's, which
# it does not understand, and those of folder pipeline.
FOLDERS_WITH_THREADS='api attach control fault io loop pager pipeline serve shadow telemetry window'
declare -A FOLDERS=([release]='' # all of them, and the scripts
  [asan]="$FOLDERS_WITH_THREADS base budget infer memory model network ops plan policy profiles simulate"
  [tsan]="$FOLDERS_WITH_THREADS")
LEFT_OUT=(-E '^kernels/.*_(6_12|all)$')
CI=() # --ci, if it was given
PASSED=0 FAILED=0 SKIPPED=0
FAILURES=()

count() {
  local result=$1 what=$2
  # CI's machine has all that is looked for here.
  [[ $result != skipped ]] || ((${#CI[@]} == 0)) || result=failed
  case $result in
    passed) PASSED=$((PASSED + 1)) ;;
    skipped) SKIPPED=$((SKIPPED + 1)) && note "SKIPPED: $what" ;;
    failed) FAILED=$((FAILED + 1)) && FAILURES+=("$what") && note "FAILED: $what" ;;
  esac
}

# Names the tests that failed, each with the end of what it printed: the summary repeats them, since
# those who read a long run's output often have its last lines alone.
failed_tests() {
  awk -v most=25 '
    /<testcase / { failed = /status="fail"/; count = 0; name = $0; gsub(/.*<testcase name="|" classname=.*/, "", name) }
    failed { line[count++] = $0 }
    failed && /<\/testcase>/ {
      print name
      for (at = count > most ? count - most : 1; at < count - 1; at++) print "   " line[at]
    }' "$1" | sed -e 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&apos;/'"'"'/g; s/&amp;/\&/g'
}

# The sums of a finished ctest run, from the attributes of its report's first element.
count_report() {
  local report=$1 what=$2 tests failures skipped disabled
  attribute() { grep -om1 "$1=\"[0-9]*\"" "$report" | tr -dc 0-9; }
  tests=$(attribute tests) failures=$(attribute failures)
  skipped=$(attribute skipped) disabled=$(attribute disabled)
  PASSED=$((PASSED + tests - failures - skipped - disabled))
  FAILED=$((FAILED + failures))
  SKIPPED=$((SKIPPED + skipped + disabled))
  ((failures == 0)) || FAILURES+=("$failures tests of $what:" "$(failed_tests "$report")")
  note "$what: $tests tests, $failures failed, $skipped skipped"
  grep -o 'SKIPPED: [^<]*' "$report" | sort -u | sed 's/^/   /' || true
  check_skips "$report" "$what"
}

check_skips() {
  local report=$1 what=$2 wrong
  wrong=$(tests/style/lib/skips.py "${CI[@]}" "$report") ||
    count failed "skips in $what that tests/skips.txt does not allow; mend the test, or list it: $wrong"
}

# ThreadSanitizer's fixed address ranges and a kernel that spreads mappings widely do not go together:
# its programs run without that spread where the system lets them, in the build too, where ctest asks
# them for their tests.
LAUNCHER=()
set_launcher() {
  LAUNCHER=()
  if [[ $1 == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
    LAUNCHER=(setarch "$(uname -m)" -R)
  fi
}

build() {
  local preset=$1 folders targets=()
  read -ra folders <<<"${FOLDERS[$preset]}"
  ((${#folders[@]} == 0)) || targets=(--target "${folders[@]/#/test_}")
  set_launcher "$preset"
  configure "$preset" >"$WP_ROOT/build/$preset.configure.log" 2>&1 || {
    cat "$WP_ROOT/build/$preset.configure.log"
    return 1
  }
  "${LAUNCHER[@]}" cmake --build --preset "$preset" -j "$JOBS" "${targets[@]}"
}

# Builds at the lowest priority, beside the tests of what was built before: these wait for disks, and for each
# other, for a third of their time. In a process group of its own, which ends with this script.
start_build() {
  local preset=$1
  set -m
  (
    renice -n 19 "$BASHPID" >/dev/null
    build "$preset"
  ) </dev/null >"$WP_ROOT/build/$preset.build.log" 2>&1 &
  set +m
  BUILD=$!
  trap 'kill -- "-$BUILD" 2>/dev/null || true' EXIT
}

# Shows how far the build that was started is, until it ends; ends with its status.
finish_build() {
  local preset=$1 started=$SECONDS
  say "$preset: building"
  tail -n +1 -f --pid="$BUILD" "$WP_ROOT/build/$preset.build.log"
  wait "$BUILD" || return
  note "waited $((SECONDS - started)) s for the $preset build"
}

run_ctest() {
  local preset=$1 report=$WP_ROOT/build/$1.tests.xml
  shift
  rm -f -- "$report"
  # Failures are counted from the report; without one, ctest itself did not work.
  "${LAUNCHER[@]}" ctest --preset "$preset" -j "$TESTS_AT_ONCE" --output-junit "$report" "$@" || true
  if [[ -s $report ]]; then
    count_report "$report" "$preset"
  else
    count failed "ctest --preset $preset left no report"
  fi
}

# All tests, or those of the test programs of some folders: these have a dot in their names, scripts have none.
test_preset() {
  local preset=$1 started=$SECONDS selection=("${LEFT_OUT[@]}")
  [[ -z ${FOLDERS[$preset]} ]] || selection=(-R "^(${FOLDERS[$preset]// /|})/.*\\.")
  set_launcher "$preset"
  say "$preset: testing"
  run_ctest "$preset" "${selection[@]}"
  note "the $preset tests took $((SECONDS - started)) s"
}

build_and_test() {
  local preset next is_built
  start_build "$1"
  while (($#)); do
    preset=$1 next=${2:-} is_built=true
    shift
    finish_build "$preset" || is_built=false
    [[ -z $next ]] || start_build "$next"
    if $is_built; then
      test_preset "$preset"
    else
      count failed "the $preset build"
    fi
  done
}

check_scripts() {
  say "shellcheck"
  local scripts
  mapfile -t scripts < <(find tools tests bench .ci -name '*.sh' -o -path .ci/run | sort)
  if shellcheck -x "${scripts[@]}"; then
    count passed "shellcheck"
  else
    count failed "shellcheck"
  fi
}

# Releases of clang-format disagree with each other; the tree is kept as 14 (Debian 12) writes it.
check_format() {
  say "clang-format"
  if ! have clang-format || [[ $(clang-format --version) != *"version 14."* ]]; then
    count skipped "clang-format 14 is not here (tools/install.sh --dev on Debian 12)"
  elif find pager runtime tools tests bench \( -name '*.cc' -o -name '*.h' -o -name '*.hpp' \) \
    -exec clang-format --dry-run --Werror {} +; then
    count passed "clang-format"
  else
    count failed "clang-format (mend with: clang-format -i FILE)"
  fi
}

check_faults() {
  say "clang-tidy"
  local status=0
  tools/scripts/tidy.sh || status=$?
  case $status in
    0) count passed "clang-tidy" ;;
    77) count skipped "clang-tidy is not here (tools/install.sh --dev)" ;;
    *) count failed "clang-tidy (tools/scripts/tidy.sh)" ;;
  esac
}

summary() {
  local failure
  for failure in "${FAILURES[@]}"; do
    say "failed: $failure"
  done
  say "took $SECONDS s"
  echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  ((FAILED == 0))
}

main() {
  local presets=(release asan tsan)
  case ${1:-} in
    '') ;;
    --fast) presets=(release) ;;
    --all) LEFT_OUT=() ;;
    --ci) CI=(--ci) ;;
    -h | --help) usage && exit 0 ;;
    *) fail "unknown option '$1': tools/test.sh [--fast | --all | --ci]" ;;
  esac
  cd "$WP_ROOT"
  mkdir -p build
  tools/install.sh
  tools/install.sh --kernels || count skipped "QEMU could not be installed: no test runs on another kernel"
  tools/install.sh --peers || count skipped "Darknet could not be installed: nothing is compared with it"
  check_scripts
  check_format
  ((${#LEFT_OUT[@]})) || check_faults
  build_and_test "${presets[@]}"
  summary
}

main "$@"
