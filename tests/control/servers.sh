#!/usr/bin/env bash
# The sockets of all that is no engine with a pager of its own: networks get another budget while they run, an
# inference says how far it is, a server of engines shows and changes the window that its guests share, and guests say
# whose they are.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../cli/lib/cli.sh"
require_programs curl
XDG_RUNTIME_DIR=$(mktemp -d /tmp/wp-control-XXXXXX) # a socket's path is short
export XDG_RUNTIME_DIR
here=$(dirname -- "${BASH_SOURCE[0]}")
server=
trap '[[ -z $server ]] || kill -KILL "$server" 2>/dev/null; rm -rf -- "$SCRATCH" "$XDG_RUNTIME_DIR"' EXIT

# serve ARGUMENTS…: in the background, until it is listed. `ps` shows what it is.
serve() {
  : >"$SCRATCH/said"
  "$WEIGHTPAGER" serve "$@" >"$SCRATCH/out" 2>"$SCRATCH/said" &
  server=$!
  until "$WEIGHTPAGER" ps | grep -qE "^ +$server weightpager"; do
    kill -0 "$server" || {
      skip_for_lack "$SCRATCH/said"
      fail "the server ended: $(cat "$SCRATCH/said")"
    }
    sleep 0.02
  done
}

stop() {
  kill -TERM "$server"
  wait "$server" || fail "the server ended with $?: $(cat "$SCRATCH/said")"
  server=
  [[ -z $(ls -A "$XDG_RUNTIME_DIR/weightpager") ]] || fail "left behind: $(ls -A "$XDG_RUNTIME_DIR/weightpager")"
}

# check_answers REQUEST…: by the schema.
check_answers() {
  python3 "$here/lib/ask.py" "$XDG_RUNTIME_DIR/weightpager/${socket_of:-$server}.sock" "$here/../../docs/schema/control.json" "$@" \
    >"$SCRATCH/answers" || fail "an answer is not as docs/schema/control.json has it"
}

make_networks squeezenet yolov3-tiny
serve "$SCRATCH/squeezenet.cfg" "$SCRATCH/yolov3-tiny.cfg" --budget 200MiB --http 0 --json "$SCRATCH/report.json"
weightpager ps
grep -qE "^ +$server weightpager +networks +200 " "$OUT" || fail "not listed: $(cat "$OUT")"
weightpager ctl "$server" set budget=50MiB
expect_status 0
grep -qx 'budget: 200.0 MiB -> 50.0 MiB' "$OUT" || fail "$(cat "$OUT")"
until grep -q ': 50.0 MiB, windows: ' "$SCRATCH/said"; do
  kill -0 "$server" || fail "the server ended: $(cat "$SCRATCH/said")"
  sleep 0.02
done
weightpager ctl "$server" set budget=1MiB
expect_status 1
expect_error 'too small'
weightpager ctl "$server" set window=1GiB
expect_status 1
expect_error "unknown key 'window'"
weightpager top "$server"
expect_status 1
expect_error 'runs networks itself, without a pager'
weightpager map "$server"
expect_status 1
expect_error 'runs networks itself, without a pager'
weightpager hist "$server"
expect_status 1
expect_error 'histograms: this process runs networks itself'
weightpager metrics "$server"
expect_status 0
grep -qx 'weightpager_budget_bytes 52428800' "$OUT" || fail "$(cat "$OUT")"
grep -qE '^weightpager_network_inferences_total\{network="yolov3-tiny"\} [0-9]+$' "$OUT" || fail "$(cat "$OUT")"
weightpager stat "$server" -n 1
expect_status 0
grep -qE '^yolov3-tiny +[0-9.]+ +[0-9.]+ +33\.' "$OUT" || fail "$(cat "$OUT")"
check_answers '{"request":"hello"}' '{"request":"stat"}' '{"request":"residency"}' '{"request":"metrics"}'
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$SCRATCH/said")
curl -s "http://127.0.0.1:$port/api/stat" | jq -e '.networks[1].name == "yolov3-tiny"' >/dev/null || fail "no HTTP at port $port"
curl -s "http://127.0.0.1:$port/metrics" | grep -q '^weightpager_network_read_bytes_total{network="squeezenet"}' ||
  fail "no metrics at port $port"
stop
jq -e '[.changes[].budget_bytes] == [209715200, 52428800]' "$SCRATCH/report.json" >/dev/null ||
  fail "not these budgets: $(jq -c .changes "$SCRATCH/report.json")"

# One inference after the other, as long as somebody looks.
printf 'P6 1 1 255\n\100\100\100' >"$SCRATCH/gray.ppm"
pictures=()
for ((i = 0; i < 2000; ++i)); do pictures+=("$SCRATCH/gray.ppm"); done
"$WEIGHTPAGER" infer "$SCRATCH/squeezenet.cfg" "$SCRATCH/squeezenet.weights" "${pictures[@]}" --http 0 \
  >"$SCRATCH/out" 2>"$SCRATCH/said" &
server=$!
until "$WEIGHTPAGER" ps | grep -qE "^ +$server weightpager +inference +[0-9]+ - +squeezenet\$"; do
  kill -0 "$server" || fail "the inference ended: $(cat "$SCRATCH/said")"
  sleep 0.02
done
until weightpager stat "$server" -n 1 --json && jq -e '.networks[0].inferences > 1' "$OUT" >/dev/null; do
  kill -0 "$server" || fail "the inference ended: $(cat "$SCRATCH/said")"
done
jq -e '.networks[0] | .name == "squeezenet" and .window_bytes > 0 and .read_bytes > .inferences' "$OUT" >/dev/null ||
  fail "$(cat "$OUT")"
check_answers '{"request":"hello"}' '{"request":"stat"}' '{"request":"metrics"}' '{"request":"set","budget":"1GiB"}'
weightpager ctl "$server" set budget=1GiB
expect_status 1
expect_error 'set: this process runs networks itself, without a pager'
kill "$server"
wait "$server" || true
server=

require_interposer
make_llama 48MiB "$SCRATCH/model.gguf"
serve "$SCRATCH/model.gguf" --window 32MiB --name control
weightpager ps
grep -qE "^ +$server weightpager +server +32 +[a-z-]+ +model.gguf\$" "$OUT" || fail "not listed: $(cat "$OUT")"
weightpager ctl "$server" set window=64MiB
expect_status 0
grep -qx 'window: 32.0 MiB -> 64.0 MiB' "$OUT" || fail "$(cat "$OUT")"
weightpager run -q --attach control -- sha256sum "$SCRATCH/model.gguf"
expect_status 0
weightpager run -q --attach control -- python3 -c 'import mmap, sys
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    for _ in range(2):
        sum(weights[at] for at in range(0, len(weights), 4096))' "$SCRATCH/model.gguf"
expect_status 0
# All of it is in the larger window, and was read once.
weightpager stat "$server" -n 1 --json
jq -e '.resident_bytes == 50331648 and .read_bytes <= .resident_bytes and .evictions == 0' "$OUT" >/dev/null || fail "$(cat "$OUT")"
check_answers '{"request":"hello"}' '{"request":"stat"}' '{"request":"residency"}' '{"request":"histograms"}'

# A guest, until it is killed.
"$WEIGHTPAGER" run -q --attach control -- python3 -c 'import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
while sum(weights[at] for at in range(0, len(weights), 4096)):
    time.sleep(0.01)' "$SCRATCH/model.gguf" 2>"$SCRATCH/guest_said" &
guest_run=$!
until guest=$("$WEIGHTPAGER" ps --json | jq "select(.server_process_id == $server).process_id") && [[ -n $guest ]]; do
  kill -0 "$guest_run" || fail "the guest ended: $(cat "$SCRATCH/guest_said")"
  sleep 0.02
done
weightpager ps
grep -qE "^ +$guest python3[0-9.]* +guest +- of $server +model.gguf\$" "$OUT" || fail "not listed: $(cat "$OUT")"
weightpager stat "$guest" -n 1
expect_status 0
grep -qxE " +$server +1 +48 +0" "$OUT" || fail "$(cat "$OUT")"
for command in top map; do
  weightpager "$command" "$guest"
  expect_status 1
  expect_error "process $guest is attached to server $server, which has the window"
done
weightpager ctl "$guest" drop
expect_status 1
expect_error "set: this process is attached to server $server"
socket_of=$guest check_answers '{"request":"hello"}' '{"request":"stat"}' '{"request":"residency"}'
weightpager ctl "$server" drop
expect_status 0
grep -qE '^resident: [0-9.]+ MiB -> [0-9.]+ MiB$' "$OUT" || fail "$(cat "$OUT")"
kill -KILL "$guest"
wait "$guest_run" 2>/dev/null || true
weightpager stat "$guest" -n 1
expect_status 3
stop
