#!/usr/bin/env bash
# The disk measured, and policies in the live pager, on a file small enough for every machine: that it
# works, and reads what the simulation says. Times are not looked at.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
have jq || skip "jq is not installed: apt-get install jq"

# Beside the build: /tmp may be a filesystem without direct reads.
folder=$(mktemp -d "${WEIGHTPAGER_BUILD:-$WP_BUILD}/bench_policies_live.XXXXXX")
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
model=$folder/model.gguf
weightpager model make --size 160MiB -o "$model"
expect_status 0
weightpager bench disk "$model" --json "$folder/disk.json"
[[ $STATUS == 0 ]] || ! grep -q 'no direct reads' "$ERR" || skip "no direct reads beside the build"
expect_status 0
jq -e '.bytes_per_s > 1e6 and .queue_depth >= 1 and .latency_ns >= 0 and .jitter >= 0' \
  "$folder/disk.json" >/dev/null || fail "$(cat "$folder/disk.json")"

report=$folder/report.json
weightpager bench policies "$model" --live --disk "$folder/disk.json" --window 64MiB \
  --policy lru,double-buffer,pin-stream,expert,learned,belady --passes 8 --json "$report"
expect_status 0
jq -e '[.windows[0].policies[] | select(.live).policy]
  == ["lru", "double-buffer", "pin-stream", "expert", "learned"]' "$report" >/dev/null ||
  fail "belady cannot be live, the others can: $(cat "$report")"
jq -e 'all(.windows[0].policies[] | select(.live); .live.read_bytes < 1.15 * .simulated.read_bytes
  and .live.read_bytes > 0.85 * .simulated.read_bytes)' "$report" >/dev/null ||
  fail "the simulation reads something else: $(cat "$report")"

weightpager bench disk "$folder/disk.json"
expect_status 1
expect_error 'expected 64.0 MiB or more'
weightpager bench disk
expect_status 2
expect_error 'expected one file'
