#!/usr/bin/env bash
# run --spill, seen from a second terminal: map, top, stat, metrics and the live page's questions name the engine's
# large blocks, how long they are and what they hold.
set -eu
# shellcheck source=tests/cli/lib/live.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/live.sh"
require_interposer
require_programs python3 curl

export XDG_CACHE_HOME=$SCRATCH/cache XDG_RUNTIME_DIR=$SCRATCH/runtime
mkdir -m 700 "$XDG_RUNTIME_DIR"
# Not in $SCRATCH, which may lie in memory.
folder=$(mktemp -d -p "$PWD" spill.XXXXXX)
end_spilling() {
  kill "$LIVE_RUN" 2>/dev/null || true
  wait "$LIVE_RUN" 2>/dev/null || true
  rm -rf -- "$SCRATCH" "$folder"
}
head -c 96M /dev/urandom >"$folder/weights.bin"
cat >"$SCRATCH/engine.py" <<'PYTHON'
import os, sys, time

MiB = 1 << 20
read = bytearray(64 * MiB)
with open(sys.argv[1], "rb", buffering=0) as file:
    file.seek(32 * MiB)
    assert file.readinto(read) == len(read)
written = bytearray(b"x") * (48 * MiB)
zeros = bytearray(24 * MiB)
gone = bytearray(20 * MiB)
del gone
print("ready", os.getpid(), flush=True)
parent = os.getppid()
while os.getppid() == parent:
    if not os.path.exists(sys.argv[2]):
        sum(read[::65536]) + sum(written[::65536])
    time.sleep(0.05)
PYTHON
"$WEIGHTPAGER" run --window 48MiB --spill "$folder" --http 0 --json "$SCRATCH/report.json" -- \
  python3 "$SCRATCH/engine.py" "$folder/weights.bin" "$SCRATCH/pause" >"$SCRATCH/engine.out" 2>&1 &
LIVE_RUN=$!
trap end_spilling EXIT
until grep -q ready "$SCRATCH/engine.out"; do
  kill -0 "$LIVE_RUN" 2>/dev/null || {
    skip_for_lack "$SCRATCH/engine.out"
    if grep -q -e 'cannot move pages' -e 'no right to serve faults' "$SCRATCH/engine.out"; then
      skip "$(head -1 "$SCRATCH/engine.out")"
    fi
    fail "no engine came up: $(cat "$SCRATCH/engine.out")"
  }
  sleep 0.1
done
LIVE_PID=$(sed -n 's/^ready //p' "$SCRATCH/engine.out")
await_page

# What was filled with zeros is known as zeros when it has left the window, until it is read ahead once more. So the
# engine pauses when it is known, and goes on if some of it was on its way back.
are_zeros_known() {
  weightpager map "$LIVE_PID" --json
  expect_status 0
  jq -e '[.models[] | select(.kind == "memory")][0].rows[2] |
    .name == "zeros" and .zero_bytes >= 10 * 1048576' "$OUT" >/dev/null
}
# Answers of a second are the same: the pager takes memory that does not grow for 200 ms as loaded, and then reads ahead.
await_rest() {
  local before='' try same=0
  for ((try = 0; try < 600; ++try)); do
    weightpager map "$LIVE_PID" --json
    if [[ $before == "$(<"$OUT")" ]]; then same=$((same + 1)); else same=0; fi
    ((same < 5)) || return 0
    before=$(<"$OUT")
    sleep 0.2
  done
  fail "a pager whose engine pauses does not come to rest"
}
for ((try = 0; try < 600; ++try)); do
  if are_zeros_known; then
    touch "$SCRATCH/pause"
    await_rest
    ! are_zeros_known || break
    rm "$SCRATCH/pause"
  fi
  sleep 0.1
done

# map: a row for each block, the largest first, with what it holds.
weightpager map "$LIVE_PID" --json
expect_status 0
jq -e --arg file "$folder/weights.bin" '
  (1048576) as $MiB | [.models[] | select(.kind == "memory")] as $memory | ($memory | length) == 1 and
  $memory[0].by == "block" and ($memory[0].rows | map(.size_bytes) | . == (sort | reverse)) and
  ($memory[0].rows | map(.size_bytes / $MiB | floor) | .[0:3] == [64, 48, 24]) and
  ($memory[0].rows[0] | .file == $file and .lazy_bytes >= 60 * $MiB and
    (.file_offset_bytes - 32 * $MiB | fabs) < 4096) and
  ($memory[0].rows[1] | .file == null and .written_bytes >= 46 * $MiB) and
  ($memory[0].rows[2] | .name == "zeros" and .zero_bytes >= 10 * $MiB) and
  all($memory[0].rows[];
    .written_bytes + .lazy_bytes + .zero_bytes == .size_bytes and
    .mapped_bytes + .ready_bytes + .reading_bytes + .absent_bytes + .failed_bytes == .size_bytes)
' "$OUT" >/dev/null || fail "map: $(jq -c 'del(.models[].states)' "$OUT")"
weightpager map "$LIVE_PID"
expect_status 0
[[ $(wc -L <"$OUT") -le 80 ]] || fail "map is wider than 80 columns: $(cat "$OUT")"
grep -qE '^ +0 weights.bin @ [0-9]+ +64 ' "$OUT" || fail "map: $(cat "$OUT")"
grep -qE '^ +1 written +48 ' "$OUT" || fail "map: $(cat "$OUT")"
grep -qE '^ +2 zeros +24 ' "$OUT" || fail "map: $(cat "$OUT")"

weightpager top "$LIVE_PID"
expect_status 0
grep -qE '^memory +[0-9]+ blocks, [0-9]+ MiB: written [0-9]+, of files 6[0-9], zeros [0-9]+' "$OUT" || fail "top: $(cat "$OUT")"
grep -qE '^weights.bin @ [0-9]+ +64 ' "$OUT" || fail "top: $(cat "$OUT")"

weightpager stat "$LIVE_PID" -n 2 -I 100ms
expect_status 0
[[ $(wc -L <"$OUT") -le 80 ]] || fail "stat is wider than 80 columns: $(cat "$OUT")"
head -1 "$OUT" | grep -q ' spill .* blocks' || fail "stat: $(cat "$OUT")"
weightpager stat "$LIVE_PID" -n 1 --json
jq -e '.memory.blocks >= 3 and .large_blocks == .memory.blocks and .large_block_bytes == .memory.size_bytes and
  .large_block_bytes_max >= .large_block_bytes + 18 * 1048576 and .mapped_file_bytes == 0' "$OUT" >/dev/null || fail "stat: $(cat "$OUT")"

weightpager metrics "$LIVE_PID"
grep -qE '^weightpager_large_blocks_by_size\{bytes_min="67108864"\} 1$' "$OUT" || fail "metrics: $(grep blocks "$OUT")"
grep -qE '^weightpager_large_blocks_held_bytes\{holds="file"\} 6[0-9]{7}$' "$OUT" || fail "metrics: $(grep blocks "$OUT")"
curl -sf "http://127.0.0.1:$HTTP_PORT/api/residency?model=0&by=block" >"$OUT"
jq -e '.rows[0].name | startswith("weights.bin @")' "$OUT" >/dev/null || fail "the page's rows: $(cat "$OUT")"
# The page in a browser, where there is one.
BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || BROWSER=
if [[ -n $BROWSER ]]; then
  timeout 100 "$BROWSER" --headless=new --no-sandbox --disable-gpu --user-data-dir="$SCRATCH/browser" \
    --virtual-time-budget=2000 --dump-dom "http://127.0.0.1:$HTTP_PORT/" >"$SCRATCH/page" 2>"$SCRATCH/browser.log" ||
    fail "the browser failed: $(tail -n 3 "$SCRATCH/browser.log")"
  grep -qE '<tr><td>weights.bin @ [0-9]+</td><td>64</td>' "$SCRATCH/page" || fail "no row of a block on the page"
  grep -qE 'id="held-lazy">6[0-9]<' "$SCRATCH/page" || fail "the page does not say what blocks hold"
fi

kill "$LIVE_PID"
wait "$LIVE_RUN" || true
grep -qE '^  spilled +[0-9.]+ MiB of blocks at most; read lazily [0-9.]+ MiB' "$SCRATCH/engine.out" ||
  fail "the summary: $(cat "$SCRATCH/engine.out")"
