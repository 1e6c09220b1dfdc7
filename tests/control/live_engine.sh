#!/usr/bin/env bash
# A live engine as its user sees it from a second terminal, in a process that makes it hard (lib/engine.cc): listed,
# watched, changed, traced; what it tells is what the kernel tells; others are not let in; its end is said, whichever
# it is, and nothing is left behind.
set -eu
# The engine's files have direct reads beside the build; /tmp may have none.
export TMPDIR=$WEIGHTPAGER_BUILD
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../cli/lib/cli.sh"
require_interposer
XDG_RUNTIME_DIR=$(mktemp -d /tmp/wp-control-XXXXXX) # a socket's path is short
export XDG_RUNTIME_DIR
here=$(dirname -- "${BASH_SOURCE[0]}")
engine=$WEIGHTPAGER_BUILD/tests/control_engine
model=$SCRATCH/model.gguf
sockets=$XDG_RUNTIME_DIR/weightpager
run_id='' pid=''
clean_up() {
  [[ -z $pid ]] || kill -KILL "$pid" 2>/dev/null || true
  rm -rf -- "$SCRATCH" "$XDG_RUNTIME_DIR"
}
trap clean_up EXIT
make_llama 96MiB "$model"

# start: leaves the engine's process id in pid.
start() {
  : >"$SCRATCH/said"
  "$WEIGHTPAGER" run --window 64MiB --policy expert -- "$engine" "$model" 2>"$SCRATCH/said" &
  run_id=$!
  pid=
  until [[ -n $pid ]]; do
    kill -0 "$run_id" 2>/dev/null || {
      skip_for_lack "$SCRATCH/said"
      fail "the engine ended: $(cat "$SCRATCH/said")"
    }
    ! grep 'no control socket' "$SCRATCH/said" || fail "there is no socket"
    weightpager ps --json
    expect_status 0
    # There may be others of this user's.
    pid=$(jq 'select(.command == "control_engine") | .process_id' "$OUT")
  done
}

weightpager stat 4194305
expect_status 3
expect_error 'there is no process 4194305'
weightpager stat x
expect_status 2
expect_error "'x' is no process id"

start
weightpager ps
grep -qE "^ +$pid control_engine +pager +64 expert +model.gguf\$" "$OUT" || fail "not listed: $(cat "$OUT")"
[[ $(stat -c %a "$sockets") == 700 && $(stat -c %a "$sockets/$pid.sock") == 600 ]] || fail "modes: $(ls -la "$sockets")"

# Bytes read, between two answers, by the kernel's account. What is in flight fits into the window; the engine pages
# in some of its own code.
weightpager stat "$pid" -n 1 --json
before=$(jq .read_bytes "$OUT")
account=$(awk '/^read_bytes/ { print $2 }' "/proc/$pid/io")
weightpager stat "$pid" -n 1 --json
after=$(jq .read_bytes "$OUT")
((account >= before && account <= after + (80 << 20))) ||
  fail "read: $before before, $account by the kernel, $after after"

weightpager stat "$pid" -n 3 -I 50ms
expect_status 0
[[ $(wc -l <"$OUT") == 5 && $(wc -L <"$OUT") -le 80 ]] || fail "rows: $(cat "$OUT")"
awk 'NR > 2 && ($2 != 64 || $1 > 64 || $8 > 100) { exit 1 }' "$OUT" || fail "rows: $(cat "$OUT")"
weightpager stat "$pid" -n 2 -I 10ms --json
jq -se 'length == 2 and .[0].time_ns < .[1].time_ns and .[0].passes <= .[1].passes' "$OUT" >/dev/null ||
  fail "$(cat "$OUT")"
weightpager hist "$pid"
expect_status 0
grep -q '^read_latency_ns: [1-9]' "$OUT" || fail "no reads: $(cat "$OUT")"

python3 "$here/lib/ask.py" "$sockets/$pid.sock" "$here/../../docs/schema/control.json" \
  '{"request":"hello"}' '{"request":"stat"}' '{"request":"histograms"}' '{"request":"residency"}' \
  '{"request":"residency","by":"tensor","first":3,"count":5}' '{"request":"residency","by":"chunk"}' \
  '{"request":"trace","do":"start"}' '{"request":"stat"}' '{"request":"trace","do":"take"}' \
  '{"request":"trace","do":"stop"}' '{"request":"set","window":"48MiB"}' 'nonsense' '{"request":"x"}' \
  >"$SCRATCH/answers" || fail "an answer is not as docs/schema/control.json has it"
[[ $(wc -l <"$SCRATCH/answers") == 13 ]] || fail "answers: $(cat "$SCRATCH/answers")"

sleep 0.1 # changes have to be 50 ms apart
weightpager ctl "$pid" set window=80MiB
expect_status 0
grep -qE '^window: (48|64).0 MiB -> 80.0 MiB$' "$OUT" || fail "$(cat "$OUT")"
sleep 0.1
weightpager ctl "$pid" set window=1GB
expect_status 1
expect_error 'has a decimal unit'
weightpager ctl "$pid" dance
expect_status 2
sleep 0.1
weightpager ctl "$pid" evict layers:0 --json
expect_status 0
jq -e '.what == "resident_bytes" and .old - .new == .evicted_bytes' "$OUT" >/dev/null || fail "$(cat "$OUT")"

sleep 0.1
weightpager ctl "$pid" drop --json
expect_status 0
jq -e '.what == "resident_bytes" and .old - .new == .evicted_bytes' "$OUT" >/dev/null || fail "$(cat "$OUT")"

weightpager trace record "$pid" -o "$SCRATCH/trace.json" --for 200ms
expect_status 0
jq -e --argjson pid "$pid" '[.traceEvents[] | select(.ph != "M")] as $events |
  ($events | length > 0 and all(.pid == $pid and .ts != null)) and
  ($events | any(.cat == "wait" and .tid == $pid and .dur > 0)) and ($events | any(.cat == "layers"))' \
  "$SCRATCH/trace.json" >/dev/null || fail "trace: $(head -c 2000 "$SCRATCH/trace.json")"

if [[ $EUID == 0 ]]; then
  STATUS=0
  XDG_RUNTIME_DIR='' setpriv --reuid 65534 --regid 65534 --clear-groups "$WEIGHTPAGER" stat "$pid" -n 1 >"$OUT" 2>"$ERR" ||
    STATUS=$?
  if [[ $STATUS == 126 || $STATUS == 127 ]]; then
    note "another user cannot run $WEIGHTPAGER"
  else
    expect_status 1
    expect_error 'no control socket that you can reach'
  fi
fi

# In an orderly end the engine's process removes its socket.
kill -USR1 "$pid"
wait "$run_id" || fail "the engine ended with $?: $(cat "$SCRATCH/said")"
[[ -z $(ls -A "$sockets") ]] || fail "left behind: $(ls -A "$sockets")"

# Killed while it is watched.
start
"$WEIGHTPAGER" stat "$pid" -I 20ms >"$SCRATCH/rows" 2>"$SCRATCH/watcher" &
watcher=$!
until [[ $(wc -l <"$SCRATCH/rows") -ge 4 ]]; do sleep 0.02; done
kill -KILL "$pid"
status=0
wait "$watcher" || status=$?
[[ $status == 3 ]] || fail "the watcher ended with $status: $(cat "$SCRATCH/watcher")"
grep -qx "weightpager: error: process $pid has ended" "$SCRATCH/watcher" || fail "said: $(cat "$SCRATCH/watcher")"
wait "$run_id" || true
[[ -e $sockets/$pid.sock ]] || fail "the test has no socket to sweep"
weightpager ps
! grep -w "$pid" "$OUT" || fail "it is still listed"
[[ -z $(ls -A "$sockets") ]] || fail "not swept: $(ls -A "$sockets")"

# Without the library that serves the socket, and under ulimit -v: one line, and the engine is paged.
mkdir "$SCRATCH/bare"
cp "$WEIGHTPAGER_BUILD/pager/libweightpager_preload.so" "$SCRATCH/bare"
cat >"$SCRATCH/read.py" <<'END'
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    sum(weights[at] for at in range(0, len(weights), 4096))
    while "no control socket" not in open("/dev/stderr").read():
        time.sleep(0.01)
END
WEIGHTPAGER_WINDOW=$((64 << 20)) LD_PRELOAD=$SCRATCH/bare/libweightpager_preload.so \
  python3 "$SCRATCH/read.py" "$model" 2>"$ERR" || fail "the engine ended with $?: $(cat "$ERR")"
[[ $(grep -c 'no control socket: .*libweightpager-control.so' "$ERR") == 1 ]] || fail "stderr: $(cat "$ERR")"
(ulimit -v 2000000 && weightpager run --window 64MiB -- python3 "$SCRATCH/read.py" "$model" && expect_status 0)
[[ $(grep -c 'no control socket: address space is limited' "$ERR") == 1 ]] || fail "stderr: $(cat "$ERR")"
