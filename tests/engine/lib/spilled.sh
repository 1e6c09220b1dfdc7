# shellcheck shell=bash disable=SC2034  # what is set here is used by windows.sh
# The promise of --spill: what engines compute with their own default kernels, which read weights, convert them or copy
# them into other layouts, in a window that is smaller than these copies, inside a memory limit that leaves no room for
# them. Source it behind tokens.sh or digests.sh.

# Not in $SCRATCH, which may lie in memory.
FOLDER=$(mktemp -d -p "${WEIGHTPAGER_BUILD:-$WP_BUILD}" spill.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$FOLDER"' EXIT
RUN_OPTIONS=(--spill "$FOLDER")

# Skips the test where memory of the engine's own cannot be served.
require_spilling() {
  require_limits
  "$WEIGHTPAGER" run --window 32MiB "${RUN_OPTIONS[@]}" -- true 2>"$SCRATCH/err" || skip "$(head -1 "$SCRATCH/err")"
}

# The same answer proves nothing if the memory did not come through the window: what the engine holds stayed there, was
# written to the spill file, or came from the file.
check_paged() {
  local window=$1
  jq -e --argjson held "$HELD_BYTES" --argjson window "$window" '
    .processes | length == 1 and (.[0] | .model_bytes >= $held and .window_bytes <= $window
    and .resident_bytes_max > 0 and .resident_bytes_max <= $window and .read_errors == 0 and .spill_errors == 0
    and .resident_bytes_max + .spill_written_bytes + .read_bytes >= $held)' "$SCRATCH/pager.json" >/dev/null ||
    fail "the pager did not serve the memory from its window: $(jq -c . "$SCRATCH/pager.json")"
}

# expect_spilled MODEL_FILE HELD_BYTES OWN_BYTES ENGINE…: computes the answer without weightpager and without a limit.
# Of the engine's memory so many bytes are copies of weights, and so many are what it needs beside them.
expect_spilled() {
  MODEL_FILE=$1
  HELD_BYTES=$2
  OWN_BYTES=$3
  ENGINE=("${@:4}")
  MODEL_BYTES=$(stat -Lc %s "$MODEL_FILE")
  "${ENGINE[@]}" >"$EXPECTED" || fail "without weightpager: the engine ended with $?"
  note "by default: $(jq -c '{load_s, rss_anon_bytes}' "$EXPECTED")"
}
