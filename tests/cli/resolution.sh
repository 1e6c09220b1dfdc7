#!/usr/bin/env bash
# --resolution: the same as with an edited .cfg, to the bit; sizes that a network cannot take are refused.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

net=$SCRATCH/squeezenet
make_networks squeezenet
make_picture "$SCRATCH/picture.ppm"
sed 's/^width=.*/width=160/; s/^height=.*/height=96/' "$net.cfg" >"$SCRATCH/edited.cfg"

# answers ARGUMENTS…: all probabilities, in full.
answers() {
  weightpager infer "$@" "$SCRATCH/picture.ppm" --top 1000 --threads 1 --window 1MiB --json "$SCRATCH/results.json"
  expect_status 0
  jq -c '[.pictures[].classes]' "$SCRATCH/results.json"
}
own=$(answers "$net.cfg" "$net.weights")
[[ $(answers "$net.cfg" "$net.weights" --resolution 224) == "$own" ]] || fail "its own size changes the outputs"
edited=$(answers "$SCRATCH/edited.cfg" "$net.weights")
[[ $edited != "$own" ]] || fail "another size gives the same outputs"
[[ $(answers "$net.cfg" "$net.weights" --resolution 160x96) == "$edited" ]] || fail "not the outputs of the edited .cfg"

# Planning sees the size, too.
for command in 'plan activations' 'plan budgets --budget 2MiB' 'bench simulate --kernels 10'; do
  # shellcheck disable=SC2086  # commands are several words
  weightpager $command "$net.cfg" --resolution 160x96 --json "$SCRATCH/resized.json"
  expect_status 0
  # shellcheck disable=SC2086
  weightpager $command "$SCRATCH/edited.cfg" --json "$SCRATCH/edited.json"
  expect_status 0
  # Times of searching differ from call to call; names of files differ.
  for side in resized edited; do
    jq -cS 'walk(if type == "object" then del(.took_ns, .planning_ns, .path, .network, .name, .cfg) else . end)' \
      "$SCRATCH/$side.json" | sed 's/squeezenet/edited/g' >"$SCRATCH/$side.txt"
  done
  cmp "$SCRATCH/resized.txt" "$SCRATCH/edited.txt" ||
    fail "$command: $(diff "$SCRATCH/resized.txt" "$SCRATCH/edited.txt" | cut -c 1-2000)"
done

# Several sizes: all that is measured of one, for each, and a row of sums for each.
weightpager bench pipelines "$net.cfg" "$net.weights" --resolution 64,160x96 --inferences 1 --windows 1MiB --threads 1 \
  --json "$SCRATCH/sizes.json"
expect_status 0
jq -e '[.resolutions[].input] == [[3, 64, 64], [3, 96, 160]] and
  ([.resolutions[] | .configurations | length] | unique) == [10] and
  ([.resolutions[] | .layer_costs | length] | unique) == [48] and
  (.resolutions[0].activation_bytes < .resolutions[1].activation_bytes)' "$SCRATCH/sizes.json" >/dev/null ||
  fail "$(jq -c '.resolutions[].input' "$SCRATCH/sizes.json")"
for size in 64x64 160x96; do
  grep -qE "^$size( +[0-9.]+){7}$" "$OUT" || fail "no row for $size: $(cat "$OUT")"
done

printf '[net]\nheight=8\nwidth=8\nchannels=3\n[connected]\noutput=4\n' >"$SCRATCH/connected.cfg"
weightpager plan activations "$SCRATCH/connected.cfg" --resolution 16
expect_status 1
expect_error 'layer 0 (connected, line 5): expected 768 weights'
weightpager bench pipelines "$net.cfg" "$net.weights" --resolution 160,8
expect_status 1
expect_error "$net.cfg for 8 x 8, line"
[[ ! -s $OUT ]] || fail "it measured before it refused: $(cat "$OUT")"
for size in 0 160x 160x96x3 a 1e3 2000000; do
  weightpager infer "$net.cfg" "$net.weights" "$SCRATCH/picture.ppm" --resolution "$size"
  expect_status 2
  expect_error '--resolution'
done
weightpager bench pipelines "$net.cfg" "$net.weights" --resolution 64,96 --trace "$SCRATCH/trace"
expect_status 2
expect_error '--trace shows one size'
