#!/usr/bin/env bash
# A network's convolutions are measured and chosen, within a budget and without; what cannot be is refused.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

export XDG_CACHE_HOME=$SCRATCH/cache
cat >"$SCRATCH/net.cfg" <<'END'
[net]
height=24
width=24
channels=3
[convolutional]
filters=16
size=3
stride=1
pad=1
activation=relu
[maxpool]
size=2
stride=2
[convolutional]
filters=32
size=3
stride=1
pad=1
activation=relu
END

plan() { weightpager plan primitives "$SCRATCH/net.cfg" --threads 1 --json "$SCRATCH/plan.json" "$@"; }

plan
expect_status 0
jq -e '.front[0].memory_bytes == (.front | map(.memory_bytes) | min) and
  .chosen.time_ns == (.front | map(.time_ns) | min) and
  (.layers | length) == 3 and .layers[2].candidates >= 8' "$SCRATCH/plan.json" >/dev/null ||
  fail "plan: $(cat "$SCRATCH/plan.json")"
[[ -n $(find "$XDG_CACHE_HOME/weightpager" -name 'primitives-*.json') ]] || fail "nothing was kept"

# From the cache, so times are the same: the least memory is enough for one selection only.
least=$(jq '.front[0].memory_bytes' "$SCRATCH/plan.json")
time_ns=$(jq '.front[0].time_ns' "$SCRATCH/plan.json")
plan --budget "$least"
expect_status 0
jq -e --argjson least "$least" --argjson time "$time_ns" \
  '.chosen.memory_bytes == $least and .chosen.time_ns == $time' "$SCRATCH/plan.json" >/dev/null ||
  fail "within $least bytes: $(jq .chosen "$SCRATCH/plan.json")"
# What a budget finds is a point of the front, which no budget changes.
front=$(plan && jq -c '.front' "$SCRATCH/plan.json")
points=$(jq length <<<"$front")
for i in $(seq 0 $((points - 1))); do
  plan --budget "$(jq ".[$i].memory_bytes" <<<"$front")"
  expect_status 0
  jq -e --argjson front "$front" --argjson i "$i" '.chosen == $front[$i] and .front == $front' \
    "$SCRATCH/plan.json" >/dev/null || fail "point $i of $front: $(jq .chosen "$SCRATCH/plan.json")"
done
plan --budget "$((least - 1))"
expect_status 1
expect_error "the least that any selection takes is"
expect_error "($least bytes)"

# Weights come from a disk: on a slower one that takes longer.
plan --layer-by-layer --disk 2
expect_status 0
fast=$(jq '.chosen.time_ns' "$SCRATCH/plan.json")
plan --layer-by-layer --disk 0.001
jq -e --argjson fast "$fast" '.chosen.held_bytes == 0 and .chosen.time_ns > $fast' \
  "$SCRATCH/plan.json" >/dev/null || fail "layer by layer: $(jq .chosen "$SCRATCH/plan.json")"

# A cache that somebody broke is measured again, and said to be.
for file in "$XDG_CACHE_HOME"/weightpager/primitives-*.json; do echo '{' >"$file"; done
plan
expect_status 0
grep -qF 'is not a profile of this version of weightpager' "$ERR" || fail "stderr: $(cat "$ERR")"

# Run by each selection that is shown.
plan --measure
expect_status 0
jq -e '(.points | length) > 0 and
  all(.points[]; .measured_time_ns > 0 and .took_ns > 0)' "$SCRATCH/plan.json" >/dev/null ||
  fail "measured: $(jq .points "$SCRATCH/plan.json")"
plan --measure --layer-by-layer
expect_status 2
expect_error '--measure runs networks with all weights in memory'

weightpager plan primitives
expect_status 2
expect_error 'expected one .cfg or .json'
plan --disk 1,2
expect_status 2
expect_error '--disk 1,2: expected a number from 1e-06 to 1000000'
weightpager plan primitives "$SCRATCH/none.cfg"
expect_status 1
weightpager plan nothing
expect_status 2
expect_error "found 'nothing'"
weightpager plan --help
expect_status 0

# By time: the least memory of the front's points that are fast enough. (--measure measured times of its own.)
plan
plan --time "$(jq '.front[0].time_ns / 1e6' "$SCRATCH/plan.json")"
expect_status 0
jq -e '.chosen == .front[0]' "$SCRATCH/plan.json" >/dev/null || fail "by time: $(jq -c .chosen "$SCRATCH/plan.json")"
plan --time 0.000001
expect_status 1
expect_error 'no selection takes only 0.000001 ms'
plan --time 5 --budget 1GiB
expect_status 2
expect_error '--budget and --time contradict each other'

# The instance of docs/reference/plan_primitives.md: 2 + 0.5 + 4 ms with 4096 bytes held and 65536 of workspace, or
# 9 + 4 ms with nothing.
sed -n '/^{"layouts"/,/^ "edges"/p' "$WP_ROOT/docs/reference/plan_primitives.md" >"$SCRATCH/instance.json"
weightpager plan primitives "$SCRATCH/instance.json" --json "$SCRATCH/of-instance.json"
expect_status 0
jq -e '(.front | map([.memory_bytes, .time_ns])) == [[0, 13e6], [69632, 6.5e6]] and
  (.nodes | map(.computed_by)) == ["im2col", "direct"] and .nodes[0].name == "conv1"' "$SCRATCH/of-instance.json" >/dev/null ||
  fail "$(cat "$SCRATCH/of-instance.json")"
weightpager plan primitives "$SCRATCH/instance.json" --svg "$SCRATCH/front.svg"
expect_status 0
# Two points of the front, two of greedy, and the chosen one.
[[ $(grep -c '<circle' "$SCRATCH/front.svg") == 5 ]] || fail "$(cat "$SCRATCH/front.svg")"
weightpager plan primitives "$SCRATCH/instance.json" --svg /proc/none.svg
expect_status 1
expect_error '--svg'
weightpager plan primitives "$SCRATCH/instance.json" --time 13
expect_status 0
grep -q '^least memory within 13.00 ms: 13.00 ms in 0.00 MiB$' "$OUT" || fail "$(cat "$OUT")"
# 3.877 + 61.515 ms are 65392000 ns, and 65.392 ms are less by a rounding: the time that was shown is enough.
cat >"$SCRATCH/rounded.json" <<'END'
{"layouts": ["nchw"], "nodes": [
  {"candidates": [{"time_ms": 3.877, "layout_in": "nchw", "layout_out": "nchw"},
                  {"time_ms": 1, "held_bytes": 4096, "layout_in": "nchw", "layout_out": "nchw"}]},
  {"candidates": [{"time_ms": 61.515, "layout_in": "nchw", "layout_out": "nchw"}]}], "edges": []}
END
weightpager plan primitives "$SCRATCH/rounded.json" --time 65.392 --json "$SCRATCH/of-rounded.json"
expect_status 0
jq -e '.chosen.memory_bytes == 0' "$SCRATCH/of-rounded.json" >/dev/null || fail "$(jq -c .chosen "$SCRATCH/of-rounded.json")"
weightpager plan primitives "$SCRATCH/instance.json" --threads 1
expect_status 2
expect_error 'is an instance'
sed 's/"time_ms": 4/"time_ms": -4/' "$SCRATCH/instance.json" >"$SCRATCH/wrong.json"
weightpager plan primitives "$SCRATCH/wrong.json"
expect_status 1
expect_error 'node 1, candidate 0: expected "time_ms"'

# Without any time to search the least memory and the fastest are there, and it is said that the rest may not be.
plan
fastest_ns=$(jq '.front[-1].time_ns' "$SCRATCH/plan.json")
plan --time-limit 1us
expect_status 0
grep -q -- '--time-limit was over' "$OUT" || fail "nothing is said: $(cat "$OUT")"
jq -e --argjson least "$least" --argjson fastest "$fastest_ns" '.is_cut_short and
  .front[0].memory_bytes == $least and .front[-1].time_ns == $fastest' "$SCRATCH/plan.json" >/dev/null ||
  fail "without time: $(jq .front "$SCRATCH/plan.json")"
plan --time-limit soon
expect_status 2
expect_error '--time-limit'
