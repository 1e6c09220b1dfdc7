#!/usr/bin/env bash
# Policies compared on paper: a trace and a model, reports in three forms, what is refused.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

trace=$SCRATCH/dense.trace
weightpager trace make dense --layers 10 --dense 40MiB --passes 12 -o "$trace"
expect_status 0
# The names of all policies are what the command offers for one that is none.
weightpager bench policies "$trace" --policy mru
expect_status 2
expect_error 'unknown policy'
names=$(sed -n 's/.*there are //p' "$ERR")
[[ $names == *', lru, '* ]] || fail "these are no names of policies: $names"
report=$SCRATCH/report
weightpager bench policies "$trace" --window 25%,50% --disk 2GB/s \
  --json "$report.json" --csv "$report.csv" --html "$report.html"
expect_status 0
grep -q 'nobody is faster than' "$OUT" || fail "$(cat "$OUT")"

# holds CONDITION TEXT: jq finds the condition true of the report.
holds() { jq -e "$1" "$report.json" >/dev/null || fail "$2: $(cat "$report.json")"; }
holds '.windows | length == 2' 'two windows'
holds "all(.windows[]; [.policies[].policy] == (\"$names\" | split(\", \")))" "$names in each window"
rows=$(jq '[.windows[].policies[]] | length' "$report.json")
# shellcheck disable=SC2016  # what begins with $ is for jq
holds 'all(.windows[]; .least_read_bytes as $least | .least_ns as $ns
  | all(.policies[].simulated; .read_bytes >= $least * 0.98 and .pass_ns_median >= $ns * 0.98))' \
  'nobody beats the bound'
holds 'all(.windows[].policies[] | select(.policy == "lru"); .simulated.read_bytes == 400 * 1024 * 1024)' \
  'lru reads the whole model'
# shellcheck disable=SC2016
holds 'all(.windows[]; (.policies[] | select(.policy == "pin-stream").simulated.pass_ns_median) as $ours
  | all(.policies[] | select(.policy == "lru" or .policy == "ring"); .simulated.pass_ns_median > $ours))' \
  'pin-stream is faster than what keeps nothing'
[[ $(wc -l <"$report.csv") == $((rows + 1)) ]] || fail "not $rows rows and a heading: $(cat "$report.csv")"
[[ $(grep -c '<svg' "$report.html") == 3 ]] || fail "not three plots"
! grep -qE '(src|href)=' "$report.html" || fail "the report needs other files"
[[ $(stat -c %s "$report.html") -lt 1000000 ]] || fail "the report is too large to be sent around"

# The same twice; another seed is another routing.
weightpager trace make moe --layers 4 --passes 30 -o "$SCRATCH/moe.trace"
weightpager bench policies "$SCRATCH/moe.trace" --policy expert,lru --csv "$SCRATCH/one.csv"
weightpager bench policies "$SCRATCH/moe.trace" --policy expert,lru --csv "$SCRATCH/two.csv"
cmp "$SCRATCH/one.csv" "$SCRATCH/two.csv" || fail "two simulations differ"

make_llama 100MiB "$SCRATCH/model.gguf"
weightpager bench policies "$SCRATCH/model.gguf" --window 40MiB --policy pin-stream
expect_status 0
grep -q pin-stream "$OUT" || fail "$(cat "$OUT")"

# refused STATUS TEXT ARGUMENTS…
refused() {
  weightpager bench policies "${@:3}"
  expect_status "$1"
  expect_error "$2"
}
refused 2 'unknown policy' "$trace" --policy lru,mru
refused 2 'is too small' "$trace" --window 1MiB
refused 2 'is there twice' "$trace" --policy lru,lru
refused 2 'disk floppy: unknown' "$trace" --disk floppy
refused 2 'there are 12 passes' "$trace" --warm-up 12
refused 1 'which has no weights to page' "$trace" --live
refused 1 'cannot be written' "$trace" --html "$SCRATCH/none/report.html"
refused 1 'none.gguf' "$SCRATCH/none.gguf"
echo '{"name": "slow"}' >"$SCRATCH/disk.json"
refused 2 'not a disk' "$trace" --disk "$SCRATCH/disk.json"

# Threads: what they will do is not known beforehand, so belady has no part in it; a live run has one.
weightpager trace make dense --layers 10 --dense 40MiB --passes 8 --threads 16 -o "$SCRATCH/threads.trace"
weightpager bench policies "$SCRATCH/threads.trace" --window 25% --json "$report.json"
expect_status 0
holds 'all(.windows[].policies[]; .policy != "belady") and (.windows[0].policies | length > 5)' 'all but belady'
weightpager bench policies "$SCRATCH/threads.trace" --policy belady
expect_status 2
expect_error 'knows the future'
weightpager bench policies "$SCRATCH/threads.trace" --live --threads 2
expect_status 2
expect_error 'a live run has one thread'
