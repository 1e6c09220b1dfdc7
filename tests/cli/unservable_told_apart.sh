#!/usr/bin/env bash
# Engines that cannot be served are told apart: what their files say before they start, the rest at the end. Of a
# script the program that reads it counts.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3 cc
MODEL=$SCRATCH/model.gguf
make_llama 40MiB "$MODEL"
REPORT=$SCRATCH/report.json

# build FILE OPTION…: the C program on standard input.
build() { cc -O1 -x c -o "$1" - "${@:2}"; }
# refused TEXT COMMAND…: before the engine starts, with a cure.
refused() {
  weightpager run --window 32MiB -- "${@:2}"
  expect_status 125
  expect_error "$1"
  grep -q '^hint: ' "$ERR" || fail "no cure: $(cat "$ERR")"
}
# patched BYTE VALUE FILE: /bin/true with another byte in its header.
patched() {
  cp /bin/true "$3"
  # shellcheck disable=SC2059  # the byte
  printf "$2" | dd of="$3" bs=1 seek="$1" conv=notrunc status=none
}

# --- Before the start ---
patched 4 '\001' "$SCRATCH/narrow"
refused 'is a 32-bit program' "$SCRATCH/narrow"
patched 18 '\267' "$SCRATCH/arm"
refused 'is a program for another kind of processor' "$SCRATCH/arm"
build "$SCRATCH/musl" -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 <<<'int main(void) { return 0; }'
refused 'is built for another C library (its loader is /lib/ld-musl-x86_64.so.1)' "$SCRATCH/musl"
build "$SCRATCH/lost" -Wl,--dynamic-linker=/nowhere/ld-linux-x86-64.so.2 <<<'int main(void) { return 0; }'
refused 'its loader /nowhere/ld-linux-x86-64.so.2 is not there' "$SCRATCH/lost"
for reader in "$SCRATCH/narrow" "/usr/bin/env $SCRATCH/narrow" "/usr/bin/env -S $SCRATCH/narrow -x"; do
  printf '#!%s\n' "$reader" >"$SCRATCH/script"
  chmod +x "$SCRATCH/script"
  refused "$SCRATCH/script: its interpreter $SCRATCH/narrow is a 32-bit program" "$SCRATCH/script"
done
# A script of a script.
printf '#!%s\n' "$SCRATCH/script" >"$SCRATCH/script2"
chmod +x "$SCRATCH/script2"
weightpager run --window 32MiB -- "$SCRATCH/script2"
expect_status 125

# Go's programs have a note, whoever links them.
build "$SCRATCH/go" <<'C'
__asm__(".pushsection .note.go.buildid, \"a\", @note\n.long 4, 4, 4\n.ascii \"Go\\0\\0\"\n.ascii \"id..\"\n.popsection");
int main(void) { return 0; }
C
weightpager run --window 32MiB --json "$REPORT" -- "$SCRATCH/go"
expect_status 0
grep -q 'go: is a Go program, which calls the kernel itself' "$ERR" || fail "no notice: $(cat "$ERR")"
jq -e '.findings[0].cause == "own_system_calls"' "$REPORT" >/dev/null || fail "$(jq -c .findings "$REPORT")"

# A static program that somebody else has built.
busybox=$(type -P busybox || true)
if [[ -n $busybox ]] && ! readelf -l "$busybox" | grep -q INTERP; then
  # It may start a program of that name.
  weightpager run --window 32MiB --json "$REPORT" -- busybox cat "$MODEL"
  expect_status 0
  grep -q "busybox: is statically linked: only engines that it starts are paged" "$ERR" || fail "no notice: $(cat "$ERR")"
  grep -q "no model was mapped: $busybox is statically linked, so weightpager's library is not in it" "$ERR" ||
    fail "the end does not say why: $(cat "$ERR")"
  # shellcheck disable=SC2016  # the script's
  printf '#!%s sh\nexec cat "$1"\n' "$busybox" >"$SCRATCH/script"
  refused "script: its interpreter $busybox is statically linked" "$SCRATCH/script" "$MODEL"
  weightpager run --window 32MiB --json "$REPORT" -- "$SCRATCH/script" /dev/null
  expect_status 0
  grep -q "busybox, the interpreter of $SCRATCH/script, is statically linked, so weightpager's library is not in it" "$ERR" ||
    fail "$(cat "$ERR")"
  jq -e '.findings[0].cause == "static_program"' "$REPORT" >/dev/null || fail "$(jq -c .findings "$REPORT")"
fi

# --- At the end: memory that --spill does not see ---
folder=$(mktemp -d -p "$PWD" spill.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
# spilling CAUSE TEXT COMMAND…
spilling() {
  weightpager run --window 48MiB --spill "$folder" --json "$REPORT" -- "${@:3}"
  skip_for_lack "$ERR"
  if grep -q -e 'cannot move pages' -e 'no right to serve faults' "$ERR"; then skip "$(head -1 "$ERR")"; fi
  expect_status 0
  if [[ $1 == none ]]; then
    jq -e '.findings == []' "$REPORT" >/dev/null || fail "$3: $(jq -c .findings "$REPORT")"
    return
  fi
  jq -e --arg cause "$1" 'any(.findings[]; .cause == $cause and .cure != "")' "$REPORT" >/dev/null ||
    fail "$3: no $1: $(jq -c .findings "$REPORT")"
  tr -s ' \n' ' ' <"$ERR" | grep -qF -- "$2" || fail "$3: not '$2' but $(cat "$ERR")"
}
# The kernel called directly, beside a block that is served.
for way in 'syscall(SYS_mmap, ' 'mmap('; do
  build "$SCRATCH/raw" <<C
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  char *served = malloc(8 << 20);
  memset(served, 1, 8 << 20);
  char *own = (char *)${way}NULL, 160L << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(own, 1, 160 << 20);
  return served[5] + own[5] - 2;
}
C
  case $way in
    syscall*) spilling own_memory 'of memory that it got by system calls of its own' "$SCRATCH/raw" ;;
    *) spilling mapped_memory 'of memory that it asked mmap for' "$SCRATCH/raw" ;;
  esac
done
# Many small blocks are the C library's, and no system calls of the engine's own.
build "$SCRATCH/small" <<'C'
#include <stdlib.h>
#include <string.h>
int main(void) {
  char *served = malloc(8 << 20);
  memset(served, 1, 8 << 20);
  for (int i = 0; i < 200; ++i) memset(malloc(1 << 20), 1, 1 << 20);
  return 0;
}
C
spilling none '' "$SCRATCH/small"

# A library that is opened so that it finds the C library's malloc first. It is found by its caller's RUNPATH.
build "$SCRATCH/libdeep.so" -shared -fPIC <<<'int deep(void) { return 7; }'
build "$SCRATCH/opens" -Wl,-rpath,"\$ORIGIN" -Wl,--enable-new-dtags -ldl <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **words) {
  void *library = dlopen("libdeep.so", RTLD_NOW | (count > 1 ? RTLD_DEEPBIND : 0));
  if (library == NULL) return 1;
  int (*deep)(void) = (int (*)(void))dlsym(library, "deep");
  return deep == NULL || deep() != 7 || dlopen("libnone.so", RTLD_NOW) != NULL || dlerror() == NULL;
}
C
spilling deep_bound 'opened libdeep.so with RTLD_DEEPBIND' "$SCRATCH/opens" deeply
grep -q '^weightpager: libdeep.so: is opened with RTLD_DEEPBIND' "$ERR" || fail "not told at once: $(cat "$ERR")"
spilling none '' "$SCRATCH/opens"
