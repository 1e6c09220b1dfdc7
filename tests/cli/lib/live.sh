# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# An engine that runs under weightpager until the test ends. Source it.

# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cli.sh"

# start_live_engine [OPTION…]: Python reads a made model over and over, in a window of a quarter of it. Sets
# LIVE_PID and LIVE_MODEL.
start_live_engine() {
  require_interposer
  export XDG_RUNTIME_DIR=$SCRATCH/runtime
  mkdir -m 700 "$XDG_RUNTIME_DIR"
  LIVE_MODEL=$SCRATCH/live.gguf
  make_llama 128MiB "$LIVE_MODEL"
  "$WEIGHTPAGER" run --window 32MiB "$@" -- python3 -c '
import mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
parent = os.getppid()
while os.getppid() == parent:
    sum(weights[at] for at in range(0, len(weights), 65536))
    time.sleep(0.01)
' "$LIVE_MODEL" >"$SCRATCH/engine.out" 2>&1 &
  LIVE_RUN=$!
  trap end_live_engine EXIT
  local i
  for ((i = 0; i < 100; ++i)); do
    # There may be others of this user's.
    LIVE_PID=$("$WEIGHTPAGER" ps --json | jq --arg model "$LIVE_MODEL" 'select(any(.models[]; .name == $model)).process_id')
    [[ -z $LIVE_PID ]] || return 0
    kill -0 "$LIVE_RUN" 2>/dev/null || break
    sleep 0.1
  done
  skip_for_lack "$SCRATCH/engine.out"
  fail "no engine came up: $(cat "$SCRATCH/engine.out")"
}

end_live_engine() {
  kill "$LIVE_RUN" 2>/dev/null || true
  wait "$LIVE_RUN" 2>/dev/null || true
  rm -rf -- "$SCRATCH"
}

# Of start_live_engine --http 0: until the page is there. Sets HTTP_PORT.
await_page() {
  local i
  for ((i = 0; i < 100; ++i)); do
    HTTP_PORT=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$SCRATCH/engine.out")
    [[ -z $HTTP_PORT ]] || return 0
    sleep 0.1
  done
  fail "no page came up: $(cat "$SCRATCH/engine.out")"
}
