#!/usr/bin/env bash
# Processes that end while their control socket is being opened leave nothing behind.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../cli/lib/cli.sh"
require_interposer
XDG_RUNTIME_DIR=$(mktemp -d /tmp/wp-control-XXXXXX) # a socket's path is short
export XDG_RUNTIME_DIR
trap 'rm -rf -- "$SCRATCH" "$XDG_RUNTIME_DIR"' EXIT
here=$(dirname -- "${BASH_SOURCE[0]}")
make_llama 16MiB "$SCRATCH/model.gguf"

weightpager run --window 64MiB -- taskset -c 0 python3 "$here/lib/short_lives.py" "$SCRATCH/model.gguf" 200 40
skip_for_lack "$ERR"
expect_status 0
[[ -d $XDG_RUNTIME_DIR/weightpager ]] || fail "no life was long enough for a socket: $(cat "$ERR")"
[[ -z $(ls -A "$XDG_RUNTIME_DIR/weightpager") ]] || fail "left behind: $(ls -A "$XDG_RUNTIME_DIR/weightpager")"
