#!/usr/bin/env bash
# The live page in a real browser: its figures are those of ps, map and stat, and they move; light and dark.
set -euo pipefail
# shellcheck source=tests/cli/lib/live.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/live.sh"

BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  skip "there is no Chromium here (tools/install.sh --dev)"
start_live_engine --http 0
await_page

# page SECONDS: the page's elements after so long, by the browser's clock, which runs ahead of ours.
page() {
  timeout 60 "$BROWSER" --headless=new --no-sandbox --disable-gpu --user-data-dir="$SCRATCH/browser" \
    --virtual-time-budget="$1" --dump-dom "http://127.0.0.1:$HTTP_PORT/" >"$SCRATCH/page" 2>"$SCRATCH/browser.log" ||
    fail "the browser failed: $(tail -n 3 "$SCRATCH/browser.log")"
}
# text ID
text() { sed -n "s/.*id=\"$1\"[^>]*>\([^<]*\)<.*/\1/p" "$SCRATCH/page" | head -n 1; }
expect_text() { [[ $(text "$1") == "$2" ]] || fail "the page shows '$(text "$1")' as $1, not '$2'"; }

weightpager map "$LIVE_PID" --json
expect_status 0
layers=$(jq '.models[0].rows | length' "$OUT")
page 2000
expect_text pid "$LIVE_PID"
expect_text command "$(weightpager ps --json && jq -r --argjson pid "$LIVE_PID" 'select(.process_id == $pid).command' "$OUT")"
expect_text window 32
[[ $(text layer) == */$layers ]] || fail "the page shows layer '$(text layer)' of $layers"
grep -q "id=\"strip-0\"[^>]*data-layers=\"$layers\"" "$SCRATCH/page" || fail "the strip has not $layers layers"
grep -qE 'class="ended"' "$SCRATCH/page" && fail "the page says that the process has ended"
read_before=$(text read-total)
passes_before=$(text passes)
((passes_before > 0)) || fail "no pass: '$passes_before'"
page 2000
(($(text passes) > passes_before)) || fail "nothing moves: $(text passes) passes, $passes_before before"
awk -v a="$(text read-total)" -v b="$read_before" 'BEGIN { exit !(a >= b) }' || fail "less was read than before"
"$WEIGHTPAGER" stat "$LIVE_PID" -n 1 --json >"$OUT"
(($(text passes) <= $(jq .passes "$OUT"))) || fail "the page has more passes than there were"

# The two schemes differ, and something is drawn.
for scheme in 0 1; do
  timeout 60 "$BROWSER" --headless=new --no-sandbox --disable-gpu --user-data-dir="$SCRATCH/browser" \
    --blink-settings=preferredColorScheme=$scheme --window-size=1000,800 --virtual-time-budget=2000 \
    --screenshot="$SCRATCH/scheme$scheme.png" "http://127.0.0.1:$HTTP_PORT/" >"$SCRATCH/browser.log" 2>&1
  [[ $(stat -c %s "$SCRATCH/scheme$scheme.png") -gt 20000 ]] || fail "an empty picture"
done
/usr/bin/python3 - "$SCRATCH/scheme0.png" "$SCRATCH/scheme1.png" <<'PYTHON'
import struct, sys, zlib

def corner(path):
    """The first pixel of a PNG with 8 bits a channel."""
    data, at, pixels = open(path, "rb").read(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            pixels += data[at + 8:at + 8 + length]
        at += 12 + length
    return zlib.decompress(pixels)[1:4]

dark, light = (sum(corner(path)) for path in sys.argv[1:])
assert dark < 3 * 64 and light > 3 * 192, (dark, light)
PYTHON
