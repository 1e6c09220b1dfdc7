#!/usr/bin/env bash
# top in a real terminal: sizes, keys, a new size, colours, the end of the process; as text without one.
# map: what it says adds up, and is what ps and the file say.
set -eu
# shellcheck source=tests/cli/lib/live.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/live.sh"

require_programs tmux
start_live_engine --json "$SCRATCH/report.json"

weightpager map "$LIVE_PID"
expect_status 0
[[ $(wc -L <"$OUT") -le 80 ]] || fail "map is wider than 80 columns: $(cat "$OUT")"
LC_ALL=C grep -q '[^ -~]' "$OUT" && fail "map is not ASCII"
weightpager map "$LIVE_PID" --tensors --json
expect_status 0
size=$(stat -c %s "$LIVE_MODEL")
jq -e --argjson size "$size" --argjson pid "$LIVE_PID" '
  .process_id == $pid and .models[0].size_bytes == $size and
  (.models[0].states | length) == (($size + .chunk_bytes - 1) / .chunk_bytes | floor) and
  (.models[0].rows | length) > 10 and
  all(.models[0].rows[];
    .mapped_bytes + .ready_bytes + .reading_bytes + .absent_bytes + .failed_bytes == .size_bytes) and
  ([.models[0].rows[] | .mapped_bytes + .ready_bytes + .reading_bytes] | add) <= .window_bytes' "$OUT" >/dev/null ||
  fail "map --json: $(cat "$OUT")"

# Every chunk, but for the header's at most, is some tensor's.
jq -e '.models[0] | .states as $states | [.rows[].chunks[] | range(.[0]; .[0] + .[1])] | unique |
  length >= ($states | length) - 1 and last == ($states | length) - 1' "$OUT" >/dev/null || fail "chunks: $(cat "$OUT")"

# As text: into a pipe, and where the terminal is dumb.
weightpager top "$LIVE_PID"
expect_status 0
grep -q "^$LIVE_PID " "$OUT" || fail "top as text: $(cat "$OUT")"
LC_ALL=C grep -q '[^ -~]' "$OUT" && fail "top as text is not ASCII: $(cat "$OUT")"

# Each screen has a server of its own: one that ends may still be there when the next one begins.
SCREENS=0
terminal() { tmux -L "weightpager-$$-$SCREENS" "$@"; }
end_terminal() {
  terminal kill-server 2>/dev/null || true
  end_live_engine
}
trap end_terminal EXIT

# screen SIZE COMMAND…: starts it on a screen of that size.
screen() {
  local size=$1
  shift
  SCREENS=$((SCREENS + 1))
  terminal new-session -d -x "${size%x*}" -y "${size#*x}" "$*; echo \"ended with \$?\"; exec sleep 60"
}
# await TEXT: until the screen shows it.
await() {
  local i
  for ((i = 0; i < 100; ++i)); do
    terminal capture-pane -p >"$SCRATCH/screen"
    ! grep -qF -- "$1" "$SCRATCH/screen" || return 0
    sleep 0.1
  done
  fail "the screen does not show '$1': $(cat "$SCRATCH/screen")"
}

for size in 80x24 200x50; do
  screen "$size" env LC_ALL=C.UTF-8 "$WEIGHTPAGER" top "$LIVE_PID" -I 100ms
  await 'q quit'
  await 'layer '
  [[ $(grep -n 'q quit' "$SCRATCH/screen" | cut -d: -f1) == "${size#*x}" ]] || fail "the keys are not in the last line"
  grep -q '█' "$SCRATCH/screen" || fail "no blocks on a UTF-8 screen: $(cat "$SCRATCH/screen")"
  terminal send-keys s
  await 'sort: stall'
  terminal send-keys h
  await 'any key ends it'
  terminal send-keys x
  terminal send-keys Space
  await PAUSED
  terminal send-keys Space
  terminal send-keys +
  await 'window: '
  terminal resize-window -x 60 -y 15
  # The keys move up to the last line of the smaller screen.
  until [[ $(grep -n 'q quit' "$SCRATCH/screen" | cut -d: -f1) == 15 ]]; do await 'q quit'; done
  terminal send-keys q
  await 'ended with 0'
  terminal kill-server
done

# Colours, but not for who refuses them; letters where there is no UTF-8.
escapes() {
  screen 80x24 env "$@" "$WEIGHTPAGER" top "$LIVE_PID" -I 100ms
  await 'q quit'
  terminal capture-pane -p -e >"$SCRATCH/escapes"
  terminal kill-server
}
escapes LC_ALL=C.UTF-8
grep -q $'\e\[[0-9;]*3[23]' "$SCRATCH/escapes" || fail "no colours on a terminal that has them"
escapes LC_ALL=C NO_COLOR=1
! grep -q $'\e\[[0-9;]*[34][0-7]' "$SCRATCH/escapes" || fail "colours in spite of NO_COLOR"
! LC_ALL=C grep -q $'[\x80-\xff]' "$SCRATCH/escapes" || fail "more than ASCII without UTF-8"
screen 80x24 env TERM=dumb "$WEIGHTPAGER" top "$LIVE_PID"
await 'ended with 0'
grep -q "^$LIVE_PID " "$SCRATCH/screen" || fail "no text on a dumb terminal"
terminal kill-server

# The process is killed: one line, and the exit status that says so.
screen 80x24 "$WEIGHTPAGER" top "$LIVE_PID" -I 100ms
await 'q quit'
kill -KILL "$LIVE_PID"
await 'ended with 3'
await "process $LIVE_PID has ended"
