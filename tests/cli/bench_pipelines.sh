#!/usr/bin/env bash
# Every pipeline on a small network: a row for each, all with the same outputs (the command sees to that).
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

net=$SCRATCH/squeezenet
make_networks squeezenet
weightpager bench pipelines "$net.cfg" "$net.weights" --inferences 2 --windows 200KiB,1MiB --json "$SCRATCH/bench.json"
expect_status 0
for name in Pre Seq Sync Async 2S Async-MD 2S-MD 'Pre \+ reads' '2S tiles' '2S overlay'; do
  grep -qE "^$name +[0-9]+ +[0-9.]+ " "$OUT" || fail "no row for $name: $(cat "$OUT")"
done
grep -q 'MiB for weights$' "$OUT" || fail "no picture: $(cat "$OUT")"
# What is kept from pass to pass depends on measured times, so on how busy the machine is; the rest is read.
# shellcheck disable=SC2016  # jq's own variables
jq -e '.configurations as $all | ($all | length) == 13 and ([$all[].delays_ns | length] | unique) == [2] and
  ([$all[] | select(.read_bytes + .window_bytes < 4900000)] | length) == 0 and $all[0].read_bytes == 0 and
  (["2S tiles", "2S overlay"] | map(. as $name | [$all[] | select(.name == $name) | .window_bytes] |
    .[0] <= 204800 and .[1] <= 1048576) | all) and
  ([range(13) | select($all[.].floor_ns > 0)] == [8, 9, 11, 12]) and
  ([8, 11] | map($all[.].read_bytes == $all[. - 1].read_bytes and $all[. - 1].name == "Pre + reads") | all) and
  (.layer_costs | length) == 48' "$SCRATCH/bench.json" >/dev/null || fail "figures: $(cat "$SCRATCH/bench.json")"

weightpager bench pipelines "$net.cfg"
expect_status 2
expect_error 'expected a .cfg and its weights'
weightpager bench pipelines "$net.cfg" "$net.weights" --windows 4MB
expect_status 2
expect_error '--windows'
weightpager bench
expect_status 2
expect_error 'no command given after weightpager bench'
weightpager bench pipelines "$net.cfg" "$net.cfg"
expect_status 1
