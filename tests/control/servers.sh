#!/usr/bin/env bash
# The sockets of weightpager's own servers: networks get another budget while they run, and a server of engines shows
# and changes the window that its guests share.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../cli/lib/cli.sh"
have jq || skip "jq is not installed: apt-get install jq"
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
      grep -q userfaultfd "$SCRATCH/said" && skip "$(cat "$SCRATCH/said")"
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
  local status=0
  python3 "$here/lib/ask.py" "$XDG_RUNTIME_DIR/weightpager/$server.sock" "$here/../../docs/schema/control.json" "$@" \
    >"$SCRATCH/answers" || status=$?
  [[ $status == 0 || $status == 77 ]] || fail "an answer is not as docs/schema/control.json has it"
}

make_networks squeezenet yolov3-tiny
serve "$SCRATCH/squeezenet.cfg" "$SCRATCH/yolov3-tiny.cfg" --budget 200MiB --json "$SCRATCH/report.json"
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
expect_error 'serves networks, which have no pager'
weightpager stat "$server" -n 1
expect_status 0
grep -qE '^yolov3-tiny +[0-9.]+ +[0-9.]+ +33\.' "$OUT" || fail "$(cat "$OUT")"
check_answers '{"request":"hello"}' '{"request":"stat"}' '{"request":"residency"}'
stop
jq -e '[.changes[].budget_bytes] == [209715200, 52428800]' "$SCRATCH/report.json" >/dev/null ||
  fail "not these budgets: $(jq -c .changes "$SCRATCH/report.json")"

require_interposer
weightpager model make --size 48MiB --type f16 -o "$SCRATCH/model.gguf"
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
stop
