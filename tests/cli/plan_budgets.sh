#!/usr/bin/env bash
# Two networks in one budget: shares add up to it, the joint plan is never worse, what is too small says so.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

make_networks squeezenet yolov3-tiny
small=$SCRATCH/squeezenet.cfg
large=$SCRATCH/yolov3-tiny.cfg
plan=$SCRATCH/plan.json

weightpager plan budgets "$small" "$large" --budget 12MiB --json "$plan"
expect_status 0
grep -qE '^squeezenet +4\.[0-9]+ ' "$OUT" || fail "no row: $(cat "$OUT")"
grep -qE '^yolov3-tiny +33\.[0-9]+ ' "$OUT" || fail "no row: $(cat "$OUT")"
for kind in equation joint; do
  jq -e --arg kind $kind '([.networks[][$kind].budget_bytes] | add) == 12582912' "$plan" >/dev/null ||
    fail "shares by $kind do not add up: $(cat "$plan")"
  # Others on the disk make nobody faster.
  jq -e --arg kind $kind 'all(.networks[][$kind]; .shared_delay_ns >= .delay_ns)' "$plan" >/dev/null ||
    fail "faster together: $(cat "$plan")"
done
# worst_GOAL KIND: what that plan makes of what the goal is to make small.
worst_mean() { jq "[.networks[] | .$1.delay_ns / .in_memory_ns] | add / length" "$plan"; }
worst_slowdown() { jq "[.networks[] | .$1.delay_ns / .in_memory_ns] | max" "$plan"; }
worst_latency() { jq "[.networks[].$1.delay_ns / 1e6] | max" "$plan"; }
for goal in mean slowdown latency; do
  weightpager plan budgets "$small" "$large" --budget 6MiB --goal $goal --json "$plan"
  expect_status 0
  awk -v joint="$(worst_$goal joint)" -v equation="$(worst_$goal equation)" -v told="$(jq .joint_goal "$plan")" \
    'BEGIN { exit !(joint <= equation && told <= joint && told >= joint - 1e-5) }' || fail "joint is worse: $(cat "$plan")"
done

# Everything fits: nobody reads.
weightpager plan budgets "$small" "$large" --budget 40MiB --json "$plan"
expect_status 0
jq -e 'all(.networks[]; .joint.budget_bytes == .weights_bytes and .joint.delay_ns == .in_memory_ns and
  .joint.shared_delay_ns == .in_memory_ns)' "$plan" >/dev/null || fail "all in memory: $(cat "$plan")"

# Periods that both keep, and one that the larger cannot.
weightpager plan budgets "$small" "$large" --budget 12MiB --period 1000,1000 --json "$plan"
expect_status 0
jq -e 'all(.networks[].joint; .late == 0)' "$plan" >/dev/null || fail "late: $(cat "$plan")"
weightpager plan budgets "$small" "$large" --budget 12MiB --period 1000,1 --json "$plan"
expect_status 0
jq -e '.networks[0].joint.late == 0 and .networks[1].joint.late > 0' "$plan" >/dev/null || fail "late: $(cat "$plan")"

# Blocks need the two largest neighbours at once; windows a tile.
least_of() { jq .least_budget_bytes "$plan"; }
weightpager plan budgets "$large" --budget 30MiB --by blocks --json "$plan"
expect_status 0
blocks=$(least_of)
jq -e '.networks[0].joint | .table_delay_ns >= .delay_ns' "$plan" >/dev/null || fail "the table is better: $(cat "$plan")"
weightpager plan budgets "$large" --budget 30MiB --json "$plan"
expect_status 0
[[ $(least_of) -lt $((blocks / 4)) ]] || fail "tiles of $(least_of), blocks of $blocks"
weightpager plan budgets "$large" --budget $((blocks - 1)) --by blocks
expect_status 1
expect_error "the least budget is"
expect_error "forced by yolov3-tiny: layer "

# The blocks: each layer is in one, two neighbours fit the share, and they are the promised delay's.
# blocks_are_whole INDEX CFG: of that network.
blocks_are_whole() {
  jq -e --argjson index "$1" --argjson last $(($(grep -c '^\[' "$2") - 2)) '.networks[$index] |
    .least_bytes as $least | .weights_bytes as $weights | [.equation, .joint] | all(.[];
      .blocks[0].first_layer == 0 and .blocks[-1].last_layer == $last and
      ([.blocks[1:], .blocks[:-1]] | transpose | all(.[0].first_layer == .[1].last_layer + 1)) and
      ([.blocks[].size_bytes] | add) == $weights and .peak_bytes <= .budget_bytes and .peak_bytes >= $least and
      ([.blocks[].kernel_ns] | add) < .delay_ns)' "$plan" >/dev/null || fail "blocks: $(cat "$plan")"
}
weightpager plan budgets "$small" "$large" --budget 32MiB --by blocks --json "$plan"
expect_status 0
blocks_are_whole 0 "$small"
blocks_are_whole 1 "$large"
blocks_told=$(jq '.networks[1].joint.blocks | length' "$plan")
grep -qE "^yolov3-tiny: $blocks_told blocks, at most [0-9.]+ MiB in two neighbours, [0-9.]+ ms" "$OUT" ||
  fail "no blocks: $(cat "$OUT")"

# A number of blocks: exactly so many, never better than what is best, never worse than the table of so many cuts; two
# need all weights, and more need no more than fewer do.
for number in 2 3 4 7; do
  weightpager plan budgets "$large" --budget 34MiB --by blocks --blocks $number --json "$SCRATCH/forced.json"
  expect_status 0
  jq -e --argjson number $number '.networks[0] | (.joint.blocks | length) == $number and
    (.joint | .table_delay_ns == null or .table_delay_ns >= .delay_ns)' "$SCRATCH/forced.json" >/dev/null ||
    fail "$number blocks: $(cat "$SCRATCH/forced.json")"
  jq -s -e '.[0].networks[0].joint.delay_ns <= .[1].networks[0].joint.delay_ns' "$plan" "$SCRATCH/forced.json" >/dev/null ||
    fail "$number blocks are faster than the best"
  [[ $number == 2 ]] || [[ $(jq .least_budget_bytes "$SCRATCH/forced.json") -le $least_before ]] || fail "$number blocks need more"
  least_before=$(jq .least_budget_bytes "$SCRATCH/forced.json")
done
jq -e '.networks[0] | .least_bytes < .weights_bytes' "$SCRATCH/forced.json" >/dev/null || fail "$(cat "$SCRATCH/forced.json")"
weightpager plan budgets "$small" "$large" --budget 38MiB --by blocks --blocks any,3 --json "$plan"
expect_status 0
jq -e '(.networks[0].joint.blocks | length) > 3 and (.networks[1].joint.blocks | length) == 3' "$plan" >/dev/null ||
  fail "numbers by network: $(cat "$plan")"
weightpager plan budgets "$large" --budget 30MiB --by blocks --blocks 2
expect_status 1
expect_error 'the least budget is 33.8 MiB'
expect_error 'forced by yolov3-tiny: 2 blocks'
weightpager plan budgets "$large" --budget 34MiB --by blocks --blocks 14
expect_status 1
expect_error 'there are only 13 layers with weights'
weightpager plan budgets "$large" --budget 34MiB --blocks 3
expect_status 2
expect_error '--blocks is for --by blocks'
for number in 0 -1 1001 many 3,3 '3,'; do
  weightpager plan budgets "$large" --budget 34MiB --by blocks --blocks "$number"
  expect_status 2
  expect_error '--blocks'
done

# A model of some machine, and what is none.
parts=(read_ns_per_byte read_ns_per_tensor read_ns_per_block kernel_ns_per_operation kernel_ns_per_layer
  release_ns_per_tensor release_ns_per_block)
printf '%s\n' "${parts[@]}" | jq -R . | jq -s '{model: (map({(.): 0}) | add | .kernel_ns_per_layer = 1000)}' >"$SCRATCH/model.json"
weightpager plan budgets "$small" --budget 3MiB --profile "$SCRATCH/model.json" --json "$plan"
expect_status 0
jq -e '.networks[0].in_memory_ns == 48000' "$plan" >/dev/null || fail "48 layers: $(cat "$plan")"
jq '.model.read_ns_per_byte = -1' "$SCRATCH/model.json" >"$SCRATCH/negative.json"
weightpager plan budgets "$small" --budget 3MiB --profile "$SCRATCH/negative.json"
expect_status 1
expect_error 'read_ns_per_byte is -1'
weightpager plan budgets "$small" --budget 3MiB --profile "$small"
expect_status 1
expect_error 'not a delay model'

weightpager plan budgets "$small" --budget 1KiB
expect_status 1
expect_error 'least budget'
weightpager plan budgets "$small"
expect_status 2
expect_error '--budget is missing'
weightpager plan budgets --budget 1MiB
expect_status 2
expect_error 'expected one .cfg or more'
weightpager plan budgets "$small" "$large" --budget 12MiB --urgency 2
expect_status 2
expect_error 'expected a number for each of 2 networks, found 1'
weightpager plan budgets "$small" --budget 12MiB --urgency 1e9
expect_status 2
expect_error '--urgency'
weightpager plan budgets "$small" --budget 12MiB --period 0.5
expect_status 2
expect_error '--period 0.5: expected a number from 1 to 60000'
weightpager plan budgets "$small" --budget 12MiB --by guess
expect_status 2
expect_error 'window or blocks'
weightpager plan budgets "$small" --budget 12MiB --goal guess
expect_status 2
expect_error 'mean, slowdown or latency'
weightpager plan
expect_status 2
expect_error 'plan: expected'

# A search ends with its time, and says below which budget there may be better.
{
  printf '[net]\nheight=8\nwidth=8\nchannels=16\n'
  for _ in {1..1500}; do printf '[convolutional]\nfilters=16\nsize=3\npad=1\nactivation=relu\n'; done
} >"$SCRATCH/long.cfg"
weightpager plan budgets "$SCRATCH/long.cfg" --budget 1MiB --by blocks --time-limit 1us
expect_status 0
grep -q 'long: --time-limit was over; at any budget there may be faster blocks' "$OUT" || fail "nothing is said: $(cat "$OUT")"
weightpager plan budgets "$SCRATCH/long.cfg" --budget 1MiB --by blocks --blocks 20
expect_status 1
expect_error 'long: --blocks 20: to try the cuts of 1500 layers would take too long'
# No time at all, and little memory, are enough for thousands of layers.
{
  cat "$SCRATCH/long.cfg"
  sed 1,4d "$SCRATCH/long.cfg"
} >"$SCRATCH/longer.cfg"
(
  ulimit -v 1048576
  weightpager plan budgets "$SCRATCH/longer.cfg" --budget 1MiB --by blocks --time-limit 0s
  expect_status 0
)
grep -qE 'longer: --time-limit was over; .* take up to [0-9.]+ % longer' "$OUT" || fail "nothing is said: $(cat "$OUT")"
weightpager plan budgets "$small" --budget 12MiB --time-limit 0
expect_status 2
expect_error '--time-limit 0: expected a time'
weightpager plan budgets "$small" --budget 12MiB --time-limit soon
expect_status 2
expect_error '--time-limit'
