#!/usr/bin/env bash
# What was asked for is never replaced: where a mapper, a port or a server cannot be had the engine does not start, and
# where that comes out later its mapping fails. It never gets a whole model from the kernel instead.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
export XDG_RUNTIME_DIR=$SCRATCH

make_llama 48MiB "$SCRATCH/model.gguf"
make_llama 48MiB "$SCRATCH/other.gguf"
server=
listener=
trap 'kill -KILL $server $listener 2>/dev/null; wait 2>/dev/null; rm -rf -- "$SCRATCH"' EXIT

# An engine that says what came of its mapping, after the code in its first argument.
cat >"$SCRATCH/engine.py" <<'PYTHON'
import errno, mmap, os, signal, sys, time
exec(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    try:
        print("mapped", sum(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[::4096]))
    except OSError as error:
        print(errno.errorcode[error.errno])
PYTHON
maps() { python3 "$SCRATCH/engine.py" "$@"; }
expect_no_memory() {
  expect_status 0
  [[ $(cat "$OUT") == ENOMEM ]] || fail "not ENOMEM: $(cat "$OUT" "$ERR")"
  grep -q "weightpager: error: .*$1" "$ERR" || fail "does not say '$1': $(cat "$ERR")"
}

# Before the engine starts.
if [[ ! -e /dev/weightpager ]]; then
  weightpager run --window 64MiB --mapper module -- "${MARKING[@]}"
  expect_refusal "the kernel module's"
fi
python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(600)' >"$SCRATCH/port" &
listener=$!
until [[ -s $SCRATCH/port ]]; do sleep 0.02; done
weightpager run --window 64MiB --http "$(cat "$SCRATCH/port")" -- "${MARKING[@]}"
expect_refusal "--http $(cat "$SCRATCH/port"): "
weightpager serve "$SCRATCH/model.gguf" --window 64MiB --name one --http "$(cat "$SCRATCH/port")"
expect_error "--http $(cat "$SCRATCH/port"): "

# Once it runs: a window that is none, a file that the server does not serve, a server that goes.
STATUS=0
preload=$("$WEIGHTPAGER" run --window 64MiB --quiet -- sh -c "echo \$LD_PRELOAD")
LD_PRELOAD=$preload WEIGHTPAGER_WINDOW=4096 maps pass "$SCRATCH/model.gguf" >"$OUT" 2>"$ERR" || STATUS=$?
expect_no_memory 'WEIGHTPAGER_WINDOW is below'

weightpager run --window 512MiB --mapper copy -- \
  sh -c "ulimit -d 200000; exec python3 '$SCRATCH/engine.py' pass '$SCRATCH/model.gguf'"
expect_no_memory 'reserving '
grep -q 'raise .ulimit -d' "$ERR" || fail "another hint: $(cat "$ERR")"

"$WEIGHTPAGER" serve "$SCRATCH/model.gguf" --window 64MiB --name one >/dev/null 2>"$SCRATCH/said" &
server=$!
await_server "$server" one "$SCRATCH/said"
weightpager run --attach one -- python3 "$SCRATCH/engine.py" pass "$SCRATCH/other.gguf"
expect_no_memory 'not among the files that are served'
weightpager run --attach one -- python3 "$SCRATCH/engine.py" "
os.kill($server, signal.SIGTERM)
while os.path.exists('$SCRATCH/weightpager/one.socket'): time.sleep(0.01)" "$SCRATCH/model.gguf"
expect_no_memory 'no server there'
weightpager run --attach one -- "${MARKING[@]}"
expect_refusal 'no such server is running'
