#!/usr/bin/env bash
# What the interposer cannot get into is refused, not run without it; launchers that it gets past are not.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

require_interposer
make_llama 40MiB "$SCRATCH/model.gguf"
cat >"$SCRATCH/map.py" <<'PYTHON'
import mmap, sys
with open(sys.argv[1], "rb") as file:
    sum(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[::4096])
PYTHON
# Not a script in front of it.
python=$(python3 -c 'import os; print(os.readlink("/proc/self/exe"))')
MAPS=("$python" "$SCRATCH/map.py" "$SCRATCH/model.gguf")
# served LAUNCHER…: in front of an engine that maps a model.
served() {
  weightpager run --window 32MiB --json "$SCRATCH/report.json" -- "$@"
  expect_status 0
  jq -e '.processes | length == 1 and .[0].models == 1' "$SCRATCH/report.json" >/dev/null || fail "not served: $(cat "$ERR")"
}

# The loader, called by its name.
loader=$(readelf -l "$python" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
served "$loader" "${MAPS[@]}"

cp "$(type -P env)" "$SCRATCH/engine"
if ((EUID == 0)); then
  # Another user's rights are more rights; one's own are not.
  chmod u+s "$SCRATCH/engine"
  served "$SCRATCH/engine" "${MAPS[@]}"
  chown 65534:0 "$SCRATCH/engine"
  chmod u+s "$SCRATCH/engine"
  engine "$SCRATCH/engine" "${MARKING[@]}"
  expect_refusal 'is setuid'
  chmod u-s "$SCRATCH/engine"
  chown 0:65534 "$SCRATCH/engine"
  chmod g+s "$SCRATCH/engine"
  engine "$SCRATCH/engine" "${MARKING[@]}"
  expect_refusal 'is setgid'
fi

have cc || skip "the rest needs a C compiler: apt-get install gcc"
cat >"$SCRATCH/static.c" <<'C'
#include <unistd.h>
int main(int count, char **words) { return count < 2 || words[1][0] == '-' || execvp(words[1], words + 1); }
C
cc -static -o "$SCRATCH/static" "$SCRATCH/static.c" 2>/dev/null || skip "no static libc to link with"
engine "$SCRATCH/static" -m "$SCRATCH/model.gguf"
expect_refusal 'is statically linked'
# A launcher hands the environment on.
served "$SCRATCH/static" "${MAPS[@]}"
grep -q 'statically linked: only engines that it starts are paged' "$ERR" || fail "no notice: $(cat "$ERR")"
served "$SCRATCH/static" sh -c "exec ${MAPS[*]}"
