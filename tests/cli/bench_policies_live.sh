#!/usr/bin/env bash
# The disk measured, and policies in the live pager, on a file small enough for every machine: that it
# works, and reads what the simulation says. Times are not looked at.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

# Beside the build: /tmp may be a filesystem without direct reads.
folder=$(mktemp -d "${WEIGHTPAGER_BUILD:-$WP_BUILD}/bench_policies_live.XXXXXX")
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
model=$folder/model.gguf
make_llama 160MiB "$model"
weightpager bench disk "$model" --json "$folder/disk.json"
[[ $STATUS == 0 ]] || ! grep -q 'no direct reads' "$ERR" || skip "no direct reads beside the build"
expect_status 0
jq -e '.bytes_per_s > 1e6 and .queue_depth >= 1 and .latency_ns >= 0 and .jitter >= 0
  and ([.handling.fault_ns, .handling.show_huge_page_ns, .handling.take_out_huge_page_ns] | all(. > 0))
  and .handling.turn_ns >= 0' \
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

# Without --disk it is measured beside the passes, each of which is simulated with what was there; or, where
# it did not stay the same (another test writes), there is a remark in place of a time.
weightpager bench policies "$model" --live --window 64MiB --policy lru,belady --passes 6 --warm-up 2 \
  --json "$report"
expect_status 0
jq -e '.disk.name == $model' --arg model "$model" "$report" >/dev/null || fail "$(cat "$report")"
if grep -q 'lru in 64.0 MiB: no live time, since the disk did not stay the same' "$OUT"; then
  jq -e '(.windows[0].policies[0] | has("live") | not) and (.remarks | length > 0)' "$report" >/dev/null ||
    fail "$(cat "$report")"
else
  grep -q 'off the live one by' "$OUT" || fail "$(cat "$OUT")"
  jq -e '.simulated_is_off_median >= 0 and .windows[0].policies[0].live.reads > 0' "$report" >/dev/null ||
    fail "$(cat "$report")"
fi
# Policies take turns; the run in the middle counts, and the passes of all of them are its spread.
weightpager bench policies "$model" --live --disk "$folder/disk.json" --window 64MiB --policy lru,expert \
  --passes 4 --warm-up 2 --repeats 3 --json "$report"
expect_status 0
grep -q 'to warm up, the middle one of 3 runs' "$OUT" || fail "$(cat "$OUT")"
[[ $(grep -o 'live: [a-z]*' "$ERR" | tr -d '\n') == 'live: lrulive: expertlive: lrulive: expertlive: lrulive: expert' ]] ||
  fail "they take no turns: $(cat "$ERR")"
jq -e '.repeats == 3 and all(.windows[0].policies[].live; .pass_ns_min <= .pass_ns_median
  and .pass_ns_median <= .pass_ns_max)' "$report" >/dev/null || fail "$(cat "$report")"
weightpager bench policies "$model" --window 64MiB --repeats 3
expect_status 2
expect_error '--repeats is for live runs'
weightpager bench policies "$model" --live --window 64MiB --passes 2 --warm-up 2
expect_status 2
expect_error 'there are 2 passes'

# Files of before, which know the disk alone, still do.
jq 'del(.handling)' "$folder/disk.json" >"$folder/old.json"
weightpager bench policies "$model" --disk "$folder/old.json" --window 64MiB --policy lru
expect_status 0
jq 'del(.handling.turn_ns)' "$folder/disk.json" >"$folder/old.json"
weightpager bench policies "$model" --disk "$folder/old.json" --window 64MiB --policy lru
expect_status 0
for cost in fault_ns turn_ns; do
  jq ".handling.$cost = 2e9" "$folder/disk.json" >"$folder/wrong.json"
  weightpager bench policies "$model" --disk "$folder/wrong.json" --window 64MiB --policy lru
  expect_status 2
  expect_error 'no disk is like that'
done

weightpager bench disk "$folder/disk.json"
expect_status 1
expect_error 'expected 128.0 MiB or more'
weightpager bench disk
expect_status 2
expect_error 'expected one file'
