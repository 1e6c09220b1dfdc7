#!/usr/bin/env bash
# Two networks in one budget that changes, and everything that is refused.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

make_networks squeezenet yolov3-tiny
small=$SCRATCH/squeezenet.cfg
large=$SCRATCH/yolov3-tiny.cfg
report=$SCRATCH/report.json

weightpager serve "$small" "$large" --budget 200MiB --then 1=40MiB,2=50MiB --seconds 3 --json "$report"
expect_status 0
grep -qE '^squeezenet +4\.[0-9]+ ' "$OUT" || fail "no row: $(cat "$OUT")"
grep -qE '^yolov3-tiny +33\.[0-9]+ ' "$OUT" || fail "no row: $(cat "$OUT")"
jq -e '[.changes[].budget_bytes] == [209715200, 41943040, 52428800]' "$report" >/dev/null ||
  fail "not these budgets: $(jq -c .changes "$report")"
jq -e 'all(.networks[]; .inferences | length > 3)' "$report" >/dev/null || fail "hardly ran"
jq -e '.peak_bytes <= 209715200' "$report" >/dev/null || fail "too much memory: $(jq .peak_bytes "$report")"
# In the second budget every share, with all activations, fits.
jq -e '([.networks[].fixed_bytes] | add) as $fixed
  | all(.changes[]; ([.shares_bytes[]] | add) + $fixed <= .budget_bytes)' "$report" >/dev/null ||
  fail "shares beyond the budget: $(jq -c .changes "$report")"
jq -e '.changes[1].shares_bytes[1] < .networks[1].weights_bytes' "$report" >/dev/null ||
  fail "40 MiB are no squeeze any more: $(jq -c .changes "$report")"

jq -e 'all(.networks[]; .reading_ns_per_byte > 0)' "$report" >/dev/null || fail "reading costs nothing"

# A period: never more inferences than images.
weightpager serve "$small" --budget 200MiB --period 250 --seconds 2 -q --json "$report"
expect_status 0
jq -e '.networks[0].inferences | length <= 9' "$report" >/dev/null || fail "more inferences than images"
[[ ! -s $OUT ]] || fail "quiet, and says: $(cat "$OUT")"

# In SwapNet's blocks, which follow the budget, too.
weightpager serve "$small" "$large" --by blocks --budget 80MiB --then 1=55MiB --seconds 2 --json "$report"
expect_status 0
jq -e 'all(.networks[]; .inferences | length > 1) and .peak_bytes <= 83886080 and
  .changes[1].shares_bytes[1] < .changes[0].shares_bytes[1]' "$report" >/dev/null ||
  fail "blocks: $(jq -c '[.peak_bytes, .changes]' "$report")"

# refused STATUS WORDS ARGUMENTS…: in words.
refused() {
  local status=$1 words=$2
  shift 2
  weightpager serve "$@"
  expect_status "$status"
  grep -q -- "$words" "$ERR" || fail "not a word of '$words': $(cat "$ERR")"
}
refused 1 'too small' "$small" "$large" --budget 1MiB
refused 1 'give --budget [0-9]*MiB or more' "$small" "$large" --budget 1MiB
refused 2 'budget is missing' "$small"
refused 2 'expected a number for each of 2 networks' "$small" "$large" --budget 1GiB --period 5
refused 2 'expected window or blocks' "$small" --budget 1GiB --by layers
refused 2 'expected SECONDS=SIZE' "$small" --budget 1GiB --then 5
refused 2 'seconds must rise' "$small" --budget 1GiB --then 5=1GiB,4=2GiB
rm "$SCRATCH/squeezenet.weights"
refused 1 'neither .*squeezenet.packed nor .*squeezenet.weights' "$small" --budget 1GiB
