# shellcheck shell=bash
# The promise of --spill: what engines compute with their own default kernels, which read weights or copy them into
# other layouts, in a window that is smaller than these copies. Source it behind tokens.sh or digests.sh.

# Beyond the window: blocks that live shortly, and buffers for reads.
BESIDE_BYTES=$((160 << 20))
# Not in $SCRATCH, which may lie in memory.
FOLDER=$(mktemp -d -p "$PWD" spill.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$FOLDER"' EXIT

# Skips the test where memory of the engine's own cannot be served.
require_spilling() {
  "$WEIGHTPAGER" run --window 32MiB --spill "$FOLDER" -- true 2>"$SCRATCH/err" || skip "$(head -1 "$SCRATCH/err")"
}

# check_spilled COPIED_BYTES PERCENT…: the command in ENGINE, of whose memory so many bytes are copies of weights.
check_spilled() {
  local copied_bytes=$1 percent window_bytes default_bytes spilled_bytes
  shift
  "${ENGINE[@]}" >"$EXPECTED" || fail "without weightpager: the engine ended with $?"
  default_bytes=$(jq .rss_anon_bytes "$EXPECTED")
  note "by default: $(jq -c '{load_s, rss_anon_bytes}' "$EXPECTED")"
  for percent in "$@"; do
    window_bytes=$((copied_bytes * percent / 100))
    "$WEIGHTPAGER" run --window "$window_bytes" --spill "$FOLDER" -- "${ENGINE[@]}" \
      >"$SCRATCH/spilled.json" 2>"$SCRATCH/err" || fail "window of $percent %: $(cat "$SCRATCH/err")"
    note "window of $percent %: $(jq -c '{load_s, rss_anon_bytes}' "$SCRATCH/spilled.json")"
    same_answer "$EXPECTED" "$SCRATCH/spilled.json" "window of $percent %"
    spilled_bytes=$(jq .rss_anon_bytes "$SCRATCH/spilled.json")
    ((spilled_bytes <= default_bytes - copied_bytes + window_bytes + BESIDE_BYTES)) ||
      fail "window of $percent %: $spilled_bytes bytes of anonymous memory, $default_bytes by default"
  done
}
