#!/usr/bin/env bash
# What the interposer cannot get into is refused, not run without it.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

cp "$(type -P touch)" "$SCRATCH/engine"
chmod u+s "$SCRATCH/engine"
engine "$SCRATCH/engine" "$MARKER"
expect_refusal 'is setuid'

chmod u-s,g+s "$SCRATCH/engine"
engine "$SCRATCH/engine" "$MARKER"
expect_refusal 'is setgid'

have cc || skip "the rest needs a C compiler: apt-get install gcc"
printf 'int main(void) { return 0; }\n' >"$SCRATCH/static.c"
cc -static -o "$SCRATCH/static" "$SCRATCH/static.c" 2>/dev/null || skip "no static libc to link with"
engine "$SCRATCH/static"
expect_refusal 'is statically linked'
