#!/usr/bin/env bash
# Pictures through a network: the same answers whatever the window, and errors instead of wrong ones.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

net=$SCRATCH/squeezenet
make_networks squeezenet
weightpager model pack "$net.cfg" "$net.weights" -o "$net.packed"
expect_status 0
make_picture "$SCRATCH/picture.ppm"

# answers ARGUMENTS…: what the network says, without its figures.
answers() {
  weightpager infer "$@" --json "$SCRATCH/results.json"
  expect_status 0
  jq -c '[.pictures[] | {path, classes}]' "$SCRATCH/results.json"
}

expected=$(answers "$net.cfg" "$net.weights" "$SCRATCH/picture.ppm" "$SCRATCH/picture.ppm" --pipeline pre)
[[ $(jq '.[0].classes | length' <<<"$expected") == 5 ]] || fail "not five classes: $expected"
grep -qE '^ +[0-9.]+ %  class [0-9]+$' "$OUT" || fail "no class on stdout: $(cat "$OUT")"
for weights in "$net.weights" "$net.packed"; do
  for options in '--window 200KiB' '--window 1MiB' '--window 30%' '' '--pipeline seq' '--pipeline sync' \
    '--pipeline async --window 2MiB' '--tile 64KiB' '--batch 2 --window 1MiB' '--batch 7'; do
    # shellcheck disable=SC2086  # options are several words
    found=$(answers "$net.cfg" "$weights" "$SCRATCH/picture.ppm" "$SCRATCH/picture.ppm" $options)
    [[ $found == "$expected" ]] || fail "$weights $options: $found, expected $expected"
  done
done

# In blocks, too: two at a time, or each copied once more.
for options in '' '--window 3MiB' '--window 6MiB -p async' '--window 100%' '--batch 2'; do
  # shellcheck disable=SC2086  # options are several words
  found=$(answers "$net.cfg" "$net.weights" "$SCRATCH/picture.ppm" "$SCRATCH/picture.ppm" --by blocks $options)
  [[ $found == "$expected" ]] || fail "--by blocks $options: $found, expected $expected"
done
answers "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --by blocks --window 3MiB >/dev/null
jq -e '[.blocks[].bytes] as $bytes | .window_bytes <= 3145728 and (has("planned_delay_ns") | not) and
  .window_bytes == ([range($bytes | length - 1) as $i | $bytes[$i] + $bytes[$i + 1]] | max)' "$SCRATCH/results.json" >/dev/null ||
  fail "blocks: $(jq -c '[.window_bytes, .blocks]' "$SCRATCH/results.json")"
weightpager bench blocks "$net.cfg" "$net.weights" --repeats 1 --json "$SCRATCH/here.json"
answers "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --by blocks --window 3MiB --profile "$SCRATCH/here.json" >/dev/null
jq -e '.planned_delay_ns > 0' "$SCRATCH/results.json" >/dev/null || fail "no planned delay"
grep -q ', planned [0-9]' "$ERR" || fail "no planned delay: $(cat "$ERR")"
for wrong in '--by layers' '--profile none' '--by blocks --tile 64KiB' '--by blocks -p seq'; do
  # shellcheck disable=SC2086  # options are several words
  weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" $wrong
  expect_status 2
done

# What it took is what was asked for: window and activations, and 40 MiB for the program.
answers "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --window 1MiB >/dev/null
jq -e '.window_bytes <= 1048576' "$SCRATCH/results.json" >/dev/null || fail "window: $(cat "$SCRATCH/results.json")"
if ! grep -qs '^WP_SANITIZE:[A-Z]*=.' "$(dirname -- "$WEIGHTPAGER")/../CMakeCache.txt"; then
  jq -e '.resident_bytes_max <= .window_bytes + .activation_bytes + 40 * 1048576' "$SCRATCH/results.json" >/dev/null ||
    fail "memory: $(cat "$SCRATCH/results.json")"
fi

# A name for each class, by its place in a file.
printf '\xef\xbb\xbf' >"$SCRATCH/names"
printf 'name %d\r\n' {0..999} >>"$SCRATCH/names"
weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --names "$SCRATCH/names" --top 1
expect_status 0
grep -qE '%  name [0-9]+$' "$OUT" || fail "no name: $(cat "$OUT")"

# A picture that cannot be read does not keep the others from being computed.
weightpager infer "$net.cfg" "$net.packed" "$net.cfg" "$SCRATCH/picture.ppm" --quiet
expect_status 1
expect_error "$net.cfg: no picture that can be read"
grep -qF "$SCRATCH/picture.ppm" "$OUT" || fail "the other picture: $(cat "$OUT")"

weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --window 16KiB
expect_status 1
expect_error 'too small for the pipeline two-stage'
weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --pipeline asnyc
expect_status 2
expect_error 'did you mean async?'
weightpager infer "$net.cfg" "$net.packed"
expect_status 2
expect_error 'expected a .cfg, its weights and at least one picture'
weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --top 0
expect_status 2
expect_error '--top 0: expected a number from 1 to 1000'

# One bit of the last layer's weights.
python3 - "$net.packed" <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-9000, 2)
    byte = file.read(1)[0]
    file.seek(-9000, 2)
    file.write(bytes([byte ^ 4]))
PY
weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm" --window 200KiB
expect_status 1
expect_error 'expected the checksum'
! grep -q '%' "$OUT" || fail "an answer in spite of that: $(cat "$OUT")"
truncate -s -4096 "$net.packed"
weightpager infer "$net.cfg" "$net.packed" "$SCRATCH/picture.ppm"
expect_status 1
expect_error 'expected a file of'
