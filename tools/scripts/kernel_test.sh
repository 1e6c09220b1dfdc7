#!/usr/bin/env bash
# Runs test programs under another kernel: one of Debian's, booted in QEMU with a small disk (ext4, so
# that direct reads work), two processors and 2 GiB. QEMU only emulates here (TCG, no KVM), so that it
# works in any container; what computes takes 10 to 30 times longer than outside.
#
#   tools/scripts/kernel_test.sh [--kernel 6.1|6.12] [--module FILE.ko] [--with FILE] [--limit SECONDS] [--lacks REASON] TEST…
#
# TEST is a program or script with its arguments, as one word: 'build/release/tests/test_io --gtest_filter=A.*'.
# A module is loaded before the tests, and lies on the disk, too, as do FILEs. A script finds bash, jq, weightpager,
# tests/preload's engine, and the scripts that it sources. SECONDS is what each test may take (default 600). REASON, a
# regular expression, is what tests that skip may say: any other skip is a failure. Ends with the status of the last
# test that failed, with 0 when none did, and with 77 and the reason when QEMU or the kernel cannot be had here.
# --log FILE keeps the machine's console.
# Needs what tools/install.sh --kernels installs.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=tools/scripts/kernel/image.sh
source "$WP_ROOT/tools/scripts/kernel/image.sh"

PATH=$PATH:/usr/sbin:/sbin
BUILD=${WEIGHTPAGER_BUILD:-$WP_BUILD}
DISK_SIZE=2G
SERIES=6.1 LIMIT_SECONDS=600 LACKS='' LOG='' TESTS=() MODULES=() FILES=()

read_options() {
  while (($#)); do
    case $1 in
      --kernel) SERIES=${2:-} && shift ;;
      --module) MODULES+=("$(realpath -e -- "${2:-}")") && shift ;;
      --with) FILES+=("$(realpath -e -- "${2:-}")") && shift ;;
      --limit) LIMIT_SECONDS=${2:-} && shift ;;
      --lacks) LACKS=${2:-} && shift ;;
      --log) LOG=${2:-} && shift ;;
      -h | --help) usage && exit 0 ;;
      -*) fail "unknown option '$1': tools/scripts/kernel_test.sh [--kernel 6.1|6.12] [--module FILE.ko] [--with FILE] [--limit SECONDS] [--lacks REASON] TEST…" ;;
      *) TESTS+=("$1") ;;
    esac
    shift
  done
  ((${#TESTS[@]})) || fail "say which tests: tools/scripts/kernel_test.sh build/release/tests/test_pager"
  [[ $LIMIT_SECONDS =~ ^[1-9][0-9]*$ ]] || fail "'$LIMIT_SECONDS' is no number of seconds"
}

check_tools() {
  [[ $(uname -m) == x86_64 ]] || skip "the kernels are x86_64's, this machine is $(uname -m)"
  local tool
  for tool in qemu-system-x86_64 busybox mke2fs cpio depmod xz apt-get dpkg-deb; do
    have "$tool" || skip "$tool is not installed: tools/install.sh --kernels"
  done
  [[ $(ldd "$(command -v busybox)" 2>/dev/null) != *'=>'* ]] ||
    skip "busybox here needs libraries: apt-get install busybox-static"
}

# add FILE…: puts files on the disk, at the paths that they have here, with the libraries they load.
add() {
  local file library
  for file in "$@"; do
    cp --parents -L -n -- "$file" "$DISK"
    # Scripts and static programs load none.
    for library in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
      cp --parents -L -n -- "$library" "$DISK"
    done
  done
}

# What a script sources, as it tells shellcheck, and what that sources.
add_sourced() {
  local file
  while read -r file; do
    add "$WP_ROOT/$file"
    add_sourced "$WP_ROOT/$file"
  done < <(sed -n 's/^# shellcheck source=//p' "$1")
}

# A script's first line and the commands that the scripts under tests/ use.
add_script() {
  add "$1" "$(command -v jq)"
  add_sourced "$1"
  ln -sfn bash "$DISK/bin/sh"
  export WEIGHTPAGER=${WEIGHTPAGER:-$BUILD/tools/weightpager}
  local file
  for file in "$WEIGHTPAGER" "$BUILD/tests/preload_engine" "$BUILD/pager/libweightpager_preload.so"; do
    [[ -e $file ]] || fail "$1 needs $file: cmake --build --preset release"
    add "$file"
  done
}

fill_disk() {
  local test program
  mkdir -p -- "$DISK"/{bin,usr/bin,scratch,lib64,etc}
  cp -- "$(command -v busybox)" "$DISK/bin/busybox"
  for applet in $("$DISK/bin/busybox" --list); do
    ln -s /bin/busybox "$DISK/usr/bin/$applet"
  done
  add "$(command -v bash)" "${MODULES[@]}" "${FILES[@]}"
  cp -- "$(command -v bash)" "$DISK/bin/bash"
  for test in "${TESTS[@]}"; do
    program=$(realpath -e -- "${test%% *}") || fail "there is no test ${test%% *}: build it first"
    case $program in
      *.sh) add_script "$program" ;;
      *) add "$program" ;;
    esac
    [[ $test == *' '* ]] && program+=" ${test#* }"
    echo "$program" >>"$DISK/tests"
  done
  # What the library loads by name, when somebody wants a control socket.
  add "$BUILD/pager/libweightpager-control.so"
  cat >"$DISK/environment" <<END
export TEST_LIMIT_SECONDS=$LIMIT_SECONDS HOME=/tmp GTEST_COLOR=no
export WEIGHTPAGER_BUILD='$BUILD' WEIGHTPAGER='${WEIGHTPAGER:-}'
END
}

make_disk() {
  fill_disk
  find "$DISK" -type f -perm /111 -size +1M -exec strip --strip-debug {} + 2>/dev/null || true
  truncate -s "$DISK_SIZE" "$WORK/disk"
  mke2fs -q -F -t ext4 -d "$DISK" "$WORK/disk" || fail "mke2fs could not make the test machine's disk"
}

make_initramfs() {
  local root=$WORK/initramfs module
  mkdir -p -- "$root/bin" "$root/modules"
  cp -- "$(command -v busybox)" "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  cp -- "$WP_ROOT/tools/scripts/kernel/init.sh" "$root/init"
  cp -- "$KERNEL"/modules/* "$root/modules/" 2>/dev/null || true  # all built in: none to copy
  for module in "${MODULES[@]}"; do
    cp -- "$module" "$root/modules/90-${module##*/}"
  done
  (cd -- "$root" && find . | cpio --quiet -o -H newc) >"$WORK/initramfs.cpio"
}

# QEMU 7.2 now and then returns wrong flags from cmpxchg16b, which kills a kernel that uses it (a double
# fault in kmem_cache_alloc, two of four boots of 6.12): the processor is said not to have it.
# The kernel counts ticks for a few milliseconds, and panics if none came: on a busy machine they come late.
boot() {
  local limit=$((LIMIT_SECONDS * ${#TESTS[@]} + 120))
  timeout --foreground "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-cx16 -smp 2 -m 2G \
    -nodefaults -nographic -no-reboot -serial stdio -kernel "$KERNEL/vmlinuz" \
    -initrd "$WORK/initramfs.cpio" -append "console=ttyS0 quiet panic=-1 no_timer_check" \
    -drive "file=$WORK/disk,if=virtio,format=raw,cache=unsafe" </dev/null | tr -d '\r' >"$WORK/console"
}

# What test NUMBER printed.
console_of() { sed -n "/weightpager-test $1 begins/,/^weightpager-test $1 ended/p" "$WORK/console"; }

# What it printed last: in which of its tests it failed, or hung.
last_lines() {
  console_of "$1" |
    grep -E '^\[ +(RUN|FAILED)|: Failure$|^no end after' | tail -n 5 | sed 's/^/      /' || true
}

# Why some of its tests were skipped, but for what this kernel may lack.
other_skips() {
  console_of "$1" | sed -n 's/^SKIPPED: //p' | sort -u | grep -vE -- "${LACKS:-^$}" || true
}

# Says how each test ended; sets STATUS.
judge() {
  local number=0 test status skips
  STATUS=0
  for test in "${TESTS[@]}"; do
    number=$((number + 1))
    status=$(sed -n "s/^weightpager-test $number ended with status //p" "$WORK/console")
    case $status in
      0)
        skips=$(other_skips "$number")
        if [[ -n $skips ]]; then
          STATUS=1
          note "FAILED: $test skips: $skips (mend it, or allow it with --lacks)"
        else
          note "passed: $test"
        fi
        ;;
      '')
        STATUS=1
        note "FAILED: $test (the machine stopped before its end)" && last_lines "$number"
        ;;
      *)
        STATUS=$status
        note "FAILED: $test (status $status)" && last_lines "$number"
        ;;
    esac
  done
}

main() {
  read_options "$@"
  check_tools
  find_kernel "$SERIES" || skip "$KERNEL_MISSING"
  WORK=$(mktemp -d) DISK=$WORK/root
  trap 'rm -rf -- "$WORK"' EXIT
  make_disk
  make_initramfs
  say "${#TESTS[@]} tests under Linux $(cat "$KERNEL/release"), emulated"
  local started=$SECONDS stopped=0
  boot || stopped=$?
  ((stopped == 0)) || note "QEMU ended with status $stopped (124: out of time)"
  [[ -z $LOG ]] || cp -- "$WORK/console" "$LOG"
  judge >"$WORK/verdicts"
  ((STATUS == 0)) || cat -- "$WORK/console"
  cat -- "$WORK/verdicts"  # last, where they are seen
  note "took $((SECONDS - started)) s"
  exit "$STATUS"
}

main "$@"
