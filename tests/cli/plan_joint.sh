#!/usr/bin/env bash
# One budget for everything: planned, packed for, run within, and refused where it is too small or not meant.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

export XDG_CACHE_HOME=$SCRATCH/cache
cd "$SCRATCH"
{
  printf '[net]\nheight=32\nwidth=32\nchannels=3\n'
  for filters in 32 64 128; do
    printf '[convolutional]\nfilters=%d\nsize=3\nstride=1\npad=1\nactivation=relu\n' "$filters"
    printf '[maxpool]\nsize=2\nstride=2\n'
  done
  printf '[avgpool]\n[connected]\noutput=1000\nactivation=linear\n[softmax]\n'
} >net.cfg
weightpager model show net.cfg --json
python3 - "$(jq .weights_file_bytes "$OUT")" <<'PY'
import array, random, struct, sys
random.seed(1)
values = array.array("f", (random.uniform(-0.1, 0.1) for _ in range((int(sys.argv[1]) - 20) // 4)))
open("net.weights", "wb").write(struct.pack("<5i", 0, 2, 0, 0, 0) + values.tobytes())
open("picture.ppm", "wb").write(b"P6\n32 32\n255\n" + random.randbytes(32 * 32 * 3))
PY
answer() { jq -c '[.pictures[0].classes[] | .class]' results.json; }
weightpager infer net.cfg net.weights picture.ppm --json results.json
expect_status 0
expected=$(answer)

# The front, and the least that there is a plan for.
weightpager plan net.cfg --threads 1 --json plans.json --html plans.html
expect_status 0
jq -e '.networks[0] | .least_bytes == .front[0].budget_bytes and
  ([.front[] | .memory_bytes <= .budget_bytes and .bound_ns <= .delay_ns] | all) and
  ([.front[].delay_ns] == ([.front[].delay_ns] | sort | reverse)) and
  .front[-1].read_bytes_per_pass == 0' plans.json >/dev/null || fail "front: $(cat plans.json)"
grep -q '<svg' plans.html || fail "no picture in plans.html"
least=$(jq '.networks[0].least_bytes' plans.json)

weightpager plan net.cfg --threads 1 --budget "$((least - 1))"
expect_status 1
expect_error "the least is"
expect_error "($least bytes)"

# One budget is planned alone; a page shows the front beside it.
weightpager plan net.cfg --threads 1 --budget "$((least * 2))" --json one.json
expect_status 0
weightpager plan net.cfg --threads 1 --budget "$((least * 2))" --json shown.json --html plans.html
expect_status 0
jq -es '(.[0].networks[0] | has("front") | not) and (.[1].networks[0].front | length) > 1 and
  .[0].networks[0].chosen.delay_ns <= .[1].networks[0].front[0].delay_ns' one.json shown.json >/dev/null ||
  fail "one budget: $(cat one.json)"

for budget in "$least" "$((least * 2))" 64MiB; do
  weightpager plan net.cfg --threads 1 --weights net.weights --budget "$budget" --explain -o plan.json
  expect_status 0
  grep -q 'weights that stay' "$OUT" || fail "nothing is explained: $(cat "$OUT")"
  grep -qE '10.0 MiB more would make it' "$OUT" || fail "no outlook: $(cat "$OUT")"
  jq -e '.trial_run_ns > 0' plan.json >/dev/null || fail "was not tried: $(cat plan.json "$ERR")"
  grep -q 'in its trial run' "$OUT" || fail "nobody is told that it was tried: $(cat "$OUT")"
  weightpager model pack net.cfg net.weights --plan plan.json -f -o net.planned
  expect_status 0
  weightpager infer net.cfg net.planned picture.ppm picture.ppm --plan plan.json --json results.json
  expect_status 0
  [[ $(answer) == "$expected" ]] || fail "within $budget: $(answer), expected $expected"
  jq -e --argjson planned "$(jq '.ring_bytes + .pinned_bytes + .arena_bytes' plan.json)" \
    '.window_bytes + .activation_bytes <= $planned' results.json >/dev/null ||
    fail "memory: $(cat results.json) planned: $(cat plan.json)"
done

# No place for weights to try it with: the plan is what was calculated, which is said. Nothing is left.
weightpager plan net.cfg --threads 1 --weights /proc/self/fd/9 --budget 64MiB -o untried.json 9<net.weights
expect_status 0
grep -q 'the plan was calculated, not tried: ' "$ERR" || fail "nobody is told: $(cat "$ERR")"
jq -e '.trial_run_ns == 0 and .delay_ns > 0' untried.json >/dev/null || fail "untried: $(cat untried.json)"
if compgen -G '*trial-run*' >/dev/null; then fail "left behind: $(ls)"; fi

# Served as planned, in windows that follow the budget. What a plan takes depends on what was measured.
cp net.planned net2.planned
cp net.cfg net2.cfg
both=$(jq '2 * (.ring_bytes + .pinned_bytes + .arena_bytes)' plan.json)
weightpager serve net.cfg net2.cfg --plans plan.json,plan.json --budget "$((2 * both + 4194304))" \
  --then "1=$((both + 2097152))" --seconds 2 --json served.json
expect_status 0
jq -e '(.networks | length) == 2 and ([.networks[].inferences | length > 2] | all) and (.changes | length) == 2' \
  served.json >/dev/null || fail "served: $(head -c 2000 served.json)"
weightpager serve net.cfg net2.cfg --plans plan.json --budget 64MiB
expect_status 2
expect_error "expected a file for each of 2 networks, found 1"

# What does not belong together.
weightpager model pack net.cfg net.weights -f -o net.packed
weightpager infer net.cfg net.weights picture.ppm --plan plan.json
expect_status 1
expect_error "--plan"
weightpager infer net.cfg net.planned picture.ppm --plan plan.json --window 1MiB
expect_status 2
expect_error "--window: the plan has one"
sed 's/"machine": "/&another /' plan.json >other.json
weightpager infer net.cfg net.planned picture.ppm --plan other.json
expect_status 1
expect_error "was made for another machine"
weightpager plan net.cfg --explain
expect_status 2
expect_error "there is no"
weightpager plan actvations net.cfg
expect_status 2
expect_error "did you mean 'plan activations'"

# Two networks: shares of one budget, the more urgent one no worse off.
cp net.cfg other.cfg
weightpager plan net.cfg other.cfg --threads 1 --budget "$((least * 5))" --urgency 5,1 --json plans.json
expect_status 0
jq -e --argjson budget "$((least * 5))" '([.networks[].chosen.budget_bytes] | add) <= $budget and
  .networks[0].chosen.delay_ns <= .networks[1].chosen.delay_ns' plans.json >/dev/null ||
  fail "shares: $(jq '[.networks[].chosen]' plans.json)"
weightpager plan net.cfg other.cfg --threads 1 --budget "$least"
expect_status 1

# Without any time to search there is a plan for the least budget all the same, and it is said that there may be faster.
weightpager plan net.cfg --threads 1 --budget "$((least * 2))" --time-limit 1us --json hasty.json
expect_status 0
grep -q -- '--time-limit was over' "$OUT" || fail "nothing is said: $(cat "$OUT")"
weightpager plan net.cfg --threads 1 --budget "$((least * 2))" --json plans.json
expect_status 0
jq -es '.[0].networks[0].chosen.is_cut_short and (.[1].networks[0].chosen.is_cut_short | not) and
  .[0].networks[0].chosen.delay_ns >= .[1].networks[0].chosen.delay_ns and
  .[0].networks[0].chosen.bound_ns <= .[1].networks[0].chosen.delay_ns' hasty.json plans.json >/dev/null ||
  fail "without time: $(jq '.networks[0].chosen' hasty.json plans.json)"
weightpager plan net.cfg --threads 1 --time-limit soon
expect_status 2
expect_error '--time-limit'
