#!/usr/bin/env bash
# A model that was not served: the summary, and --json, name the cause and what to do about it.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3 cc
# The program itself: a script that starts it is one more process.
PYTHON=$(python3 -c 'import os; print(os.path.realpath("/proc/self/exe"))')
MODEL=$SCRATCH/model.gguf
make_llama 48MiB "$MODEL"
REPORT=$SCRATCH/report.json

# expect_cause CAUSE TEXT COMMAND…: nothing is served, in one line that says TEXT. $SPILLING may be an option.
expect_cause() {
  weightpager run --window 32MiB ${SPILLING:+"$SPILLING"} --json "$REPORT" -- "${@:3}"
  expect_status 0
  [[ $(grep -c '^weightpager: no model was mapped: ' "$ERR") == 1 ]] || fail "$1: no line says why: $(cat "$ERR")"
  grep -qF -- "$2" "$ERR" || fail "$1: not '$2' but $(cat "$ERR")"
  jq -e --arg cause "$1" '.processes == [] and .findings[0].cause == $cause and .findings[0].cure != ""' \
    "$REPORT" >/dev/null || fail "$1: $(jq -c .findings "$REPORT")"
}

READ_ALL='import sys; len(open(sys.argv[1], "rb").read())'
MAP='import mmap, os, sys; mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, prot=mmap.PROT_READ)[0]'

expect_cause environment_lost "started $PYTHON" env -i "$PYTHON" -c "$MAP" "$MODEL"
expect_cause environment_lost "started $PYTHON" env LD_PRELOAD= "$PYTHON" -c "$MAP" "$MODEL"
SPILLING=--no-spill expect_cause model_read "opened $MODEL and read 48.0 MiB instead" "$PYTHON" -c "$READ_ALL" "$MODEL"
# Past the page cache, and without an orderly end.
expect_cause model_not_mapped "opened $MODEL and did not map it" "$PYTHON" -c \
  'import os, signal, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); os.execv("/bin/true", ["true"])' "$MODEL"
expect_cause mapped_by_kernel 'shared and writable' "$PYTHON" -c \
  'import mmap, os, sys; mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)[0]' "$MODEL"

# A static engine behind a script; the script's other programs are none of it.
cc -static -x c -o "$SCRATCH/static" - <<<'int main(void) { return 0; }' 2>/dev/null &&
  expect_cause static_program "started $SCRATCH/static, which is statically linked" \
    sh -c "true; '$SCRATCH/static' '$MODEL'; env -i true"

# A library in front that keeps mmap to itself, as some allocators do.
cc -shared -fPIC -x c -o "$SCRATCH/hook.so" - <<'HOOK'
#include <sys/syscall.h>
#include <unistd.h>
void* mmap(void* address, unsigned long size, int protection, int flags, int fd, long offset) {
  return (void*)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}
void* mmap64(void* address, unsigned long size, int protection, int flags, int fd, long offset) {
  return (void*)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}
HOOK
expect_cause mmap_taken "by $SCRATCH/hook.so" sh -c \
  "LD_PRELOAD=$SCRATCH/hook.so:\$LD_PRELOAD exec '$PYTHON' -c '$MAP' '$MODEL'"

# A daemon that has not come to its model when the command ends.
mkfifo "$SCRATCH/go"
expect_cause still_running 'runs on in the background' "$PYTHON" -c '
import os, sys
if os.fork(): os._exit(0)
for descriptor in range(3): os.close(descriptor)
open(sys.argv[1], "w").close()' "$SCRATCH/go"
cat "$SCRATCH/go"

# Without any sign it is the names.
engine sh -c true
grep -q 'looked for \*.gguf' "$ERR" || fail "$(cat "$ERR")"
