#!/usr/bin/env bash
# Two released llama.cpp engines on one model and one window: the same tokens as without weightpager, each byte read
# once where the window holds the model, the server within a memory limit of its window, and SIGBUS in both engines
# when the server is killed.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"

NAME=test-$$
SERVER=
cleanup() {
  [[ -z $SERVER ]] || kill -KILL "$SERVER" 2>/dev/null || true
  rm -rf -- "$SCRATCH"
}
trap cleanup EXIT

# serve PERCENT: in a memory cgroup of the window and a little; the server's report will be in $SCRATCH/server.json.
serve() {
  local window=$((MODEL_BYTES * $1 / 100 >> 21 << 21))
  drop_page_cache "$MODEL_FILE"
  : >"$SCRATCH/server.txt" # what the last one said is no sign of this one
  "$LIMITED" --limit $((window + MEMORY_SLACK)) --report "$SCRATCH/limit.json" -- \
    "$WEIGHTPAGER" serve "$MODEL_FILE" --window "$((window >> 20))MiB" --name "$NAME" \
    --json "$SCRATCH/server.json" 2>"$SCRATCH/server.txt" &
  SERVER=$!
  until grep -q 'weightpager run --attach' "$SCRATCH/server.txt"; do
    kill -0 "$SERVER" || fail "the server ended: $(cat "$SCRATCH/server.txt")"
    sleep 0.1
  done
}

server_pid() { pgrep -f "weightpager serve .* --name $NAME " | tail -n 1; }

stop_server() {
  kill -TERM "$(server_pid)"
  wait "$SERVER" || fail "the server ended with $?: $(cat "$SCRATCH/server.txt" "$SCRATCH/limit.json")"
  SERVER=
  cat -- "$SCRATCH/server.txt"
}

# start_engine NUMBER: its process in ENGINES.
start_engine() {
  "$WEIGHTPAGER" run --attach "$NAME" -- "${ENGINE[@]}" >"$SCRATCH/found-$1.json" 2>"$SCRATCH/engine-$1.txt" &
  ENGINES+=($!)
}

two_engines() {
  local number
  ENGINES=()
  for number in 0 1; do start_engine "$number"; done
  for number in 0 1; do
    wait "${ENGINES[number]}" || fail "engine $number ended with $?: $(cat "$SCRATCH/engine-$number.txt")"
    same_answer "$EXPECTED" "$SCRATCH/found-$number.json" "engine $number"
    grep -q "attached to a server's window" "$SCRATCH/engine-$number.txt" || fail "engine $number was not attached"
  done
}

# Both are the server's guests, and it has read more than loading the model takes.
both_compute() {
  local server guests read_bytes
  server=$(server_pid)
  guests=$("$WEIGHTPAGER" ps --json | jq -s --argjson server "$server" \
    '[.[] | select(.server_process_id == $server)] | length')
  read_bytes=$("$WEIGHTPAGER" stat "$server" -n 1 --json | jq .read_bytes)
  ((guests == 2 && read_bytes > 2 * MODEL_BYTES))
}

require_engine
require_limits
model=$(make_model 512MiB f16) || fail "no model could be made"
expect_tokens "$model"

say "a window for all of it: each byte is read once for both engines"
serve 110
two_engines
stop_server
jq -e --argjson model "$MODEL_BYTES" '.processes[0] | .read_bytes <= $model and .evictions == 0' \
  "$SCRATCH/server.json" >/dev/null || fail "more was read than once: $(jq -c '.processes[0]' "$SCRATCH/server.json")"

say "a window of a quarter"
serve 25
two_engines
stop_server
jq -e '.processes[0] | .resident_bytes_max <= .window_bytes and .evictions > 0' "$SCRATCH/server.json" >/dev/null ||
  fail "the window was not kept: $(jq -c '.processes[0]' "$SCRATCH/server.json")"

say "the server is killed while both compute"
serve 25
ENGINES=()
engine_on "$MODEL_FILE" --tokens 200
for number in 0 1; do start_engine "$number"; done
until both_compute; do
  kill -0 "${ENGINES[@]}" || fail "an engine ended early: $(cat "$SCRATCH"/engine-?.txt)"
  sleep 0.1
done
killed_ns=$(date +%s%N)
kill -KILL "$(server_pid)"
for number in 0 1; do
  status=0
  wait "${ENGINES[number]}" || status=$?
  ((status == 128 + 7)) || fail "engine $number ended with $status, expected SIGBUS: $(cat "$SCRATCH/engine-$number.txt")"
  grep -q 'the server of the weights has ended' "$SCRATCH/engine-$number.txt" || fail "engine $number does not say why"
  note "engine $number: SIGBUS $((($(date +%s%N) - killed_ns) / 1000000)) ms after the server's death"
done
wait "$SERVER" || true
SERVER=
