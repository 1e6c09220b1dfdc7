#!/usr/bin/env bash
# Activations of a network and of records are planned, the report is records again, and what is neither
# is refused.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

# Records of a published network, out of the list that is compiled in.
{
  echo '{"records": ['
  sed -n '/ mobilenet_v2\[\]/,/};/p' "$WP_ROOT/runtime/network/synthetic/published_activations.cc" |
    grep -oE '\{[0-9, ]+\}' | tr '{}' '[]' | paste -sd,
  echo ']}'
} >"$SCRATCH/mobilenet_v2.json"
weightpager plan activations "$SCRATCH/mobilenet_v2.json" --json "$SCRATCH/plan.json"
expect_status 0
grep -qF '65 tensors, 26.313 MiB without sharing' "$OUT" || fail "$(cat "$OUT")"
grep -qE 'kept: 5.742 MiB, greedy by size .*meets the bound' "$OUT" || fail "$(cat "$OUT")"
grep -qE 'kept: 6.699 MiB in objects of 4.594 \+ 1.723 \+ 0.287 \+ 0.096, .*the optimum' "$OUT" ||
  fail "$(cat "$OUT")"
# Nothing that is live at the same time lies in the same bytes; the report says where everything is.
jq -e '[.records, .offsets.offset_bytes] | transpose as $all
  | [range($all | length) as $i | range($i) as $j | $all[$i] as $a | $all[$j] as $b
    | select($a[0][0] <= $b[0][1] and $b[0][0] <= $a[0][1]
        and $a[1] < $b[1] + $b[0][2] and $b[1] < $a[1] + $a[0][2])] == []' "$SCRATCH/plan.json" >/dev/null ||
  fail "the plan in the report has overlaps"

before=$(jq -c '[.offsets.total_bytes, .offsets.offset_bytes, .shared_objects.object]' "$SCRATCH/plan.json")
weightpager plan activations "$SCRATCH/plan.json" --json "$SCRATCH/again.json"
expect_status 0
after=$(jq -c '[.offsets.total_bytes, .offsets.offset_bytes, .shared_objects.object]' "$SCRATCH/again.json")
[[ $before == "$after" ]] || fail "the report's records gave another plan"

# In steps: 40 come between two tensors, where there are 30, and one of these has not begun.
echo '{"known_after": [[3, 1]], "records": [[0, 1, 40], [0, 9, 10], [5, 9, 10], [2, 6, 40]]}' >"$SCRATCH/late.json"
weightpager plan activations "$SCRATCH/late.json" --json "$SCRATCH/steps.json"
expect_status 0
grep -qE 'all sizes known at first: 0.000 +\+50.0% +\+50.0% +\+0.0% +\+0.0%' "$OUT" || fail "$(cat "$OUT")"
[[ $(jq -c '[.offsets.total_bytes, (.steps.offsets[] | .total_bytes, [.steps[] | .after_operation, .total_bytes])]' \
  "$SCRATCH/steps.json") == '[60,90,[null,50,1,90],90,[null,50,1,90],60,[null,50,1,60],60,[null,50,1,60]]' ]] ||
  fail "$(jq -c .steps "$SCRATCH/steps.json")"
weightpager plan activations "$SCRATCH/steps.json" --json "$SCRATCH/steps_again.json"
expect_status 0
[[ $(jq -c .steps "$SCRATCH/steps.json") == "$(jq -c .steps "$SCRATCH/steps_again.json")" ]] ||
  fail "the report's records gave other steps"
jq -e 'has("steps") | not' "$SCRATCH/plan.json" >/dev/null || fail "steps, though all sizes are known"

make_networks squeezenet
weightpager plan activations "$SCRATCH/squeezenet.cfg" --json "$SCRATCH/squeezenet.json"
expect_status 0
grep -q 'meets the bound' "$OUT" || fail "$(cat "$OUT")"
# What a run says that activations take is what was planned.
printf 'P6 224 224 255\n' >"$SCRATCH/grey.ppm"
head -c $((3 * 224 * 224)) /dev/zero >>"$SCRATCH/grey.ppm"
weightpager infer "$SCRATCH/squeezenet.cfg" "$SCRATCH/squeezenet.weights" "$SCRATCH/grey.ppm" \
  --window 4MiB --json "$SCRATCH/infer.json"
expect_status 0
[[ $(jq .activation_bytes "$SCRATCH/infer.json") == $(jq .offsets.total_bytes "$SCRATCH/squeezenet.json") ]] ||
  fail "infer took $(jq .activation_bytes "$SCRATCH/infer.json") for activations"

echo '{"records": [[0, 1, 64], [2, 1, 64]]}' >"$SCRATCH/bad.json"
weightpager plan activations "$SCRATCH/bad.json"
expect_status 1
expect_error "$SCRATCH/bad.json, byte 35: expected a last operation from 2 on, found 1"
echo '{"records": [[0, 1, 64], [1, 1, 64]], "known_after": [[1, 1]]}' >"$SCRATCH/bad.json"
weightpager plan activations "$SCRATCH/bad.json"
expect_status 1
expect_error "$SCRATCH/bad.json, byte 60: expected an operation before 1, with which tensor 1 begins, found 1"
weightpager plan activations "$SCRATCH/none.cfg"
expect_status 1
expect_error "$SCRATCH/none.cfg"
weightpager plan activations
expect_status 2
expect_error 'expected a NET.cfg or RECORDS.json'
weightpager plan primitivs
expect_status 2
expect_error "did you mean 'plan primitives'?"
weightpager plan activations --jsn x net.json
expect_status 2
expect_error '--json'
weightpager plan activations --time-limit soon net.json
expect_status 2
expect_error '--time-limit'
