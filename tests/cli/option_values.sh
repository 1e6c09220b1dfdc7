#!/usr/bin/env bash
# Values of options that mean nothing are refused, with the option's name and what it takes: nothing, none,
# too much, and what is no number although the language can read it as one.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

cd "$SCRATCH"
printf '[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=4\nsize=3\nstride=1\npad=1\nactivation=relu\n' >net.cfg
truncate -s $((20 + 4 * (4 + 4 * 27))) net.weights
printf '\0\0\0\0\2\0\0\0' | dd of=net.weights conv=notrunc status=none
printf 'P6\n1 1\n255\nabc' >picture.ppm
mkdir folder

# refused OPTION VALUE COMMAND…: by name, before anything is done.
refused() {
  weightpager "${@:3}" "$1" "$2"
  [[ $STATUS == 1 || $STATUS == 2 || $STATUS == 125 ]] || fail "${*:3} $1 '$2': status $STATUS; stderr: $(cat "$ERR")"
  expect_error "$1"
}
infer=(infer net.cfg net.weights picture.ppm)
simulate=(bench simulate net.cfg --kernels 100)

# Every option that takes a value is refused without one; those that may come first stand for all.
for option in --window --tile --pipeline --plan --batch --repeat --threads --names --threshold --overlap --top \
  --json --trace --http --device; do
  refused "$option" '' "${infer[@]}"
done
refused --window '' run
refused --match '' run --window 1GiB
refused --budget '' plan net.cfg
refused --disk '' plan primitives net.cfg
refused --interval '' stat
refused --output '' trace make dense

for size in 0 -1 inf 1e9 1025TiB 17000000TiB; do
  refused --tile "$size" "${infer[@]}"
  refused --tile "$size" "${simulate[@]}"
  refused --windows "4MiB,$size" "${simulate[@]}"
done
for number in 0 -1 inf nan 1e300 0x10; do
  refused --disks "1,$number" "${simulate[@]}"
  refused --kernels "$number" bench simulate net.cfg
  refused --disk "$number" plan net.cfg
  refused --disk "$number" plan primitives net.cfg
  refused --compute "$number" bench policies net.cfg
  refused --zipf "$number" trace make moe -o made.trace
  refused --urgency "$number" plan budgets net.cfg --budget 1MiB
  refused --period "$number" serve net.cfg --budget 1MiB
  refused --threshold "-1$number" "${infer[@]}"
  refused --then "$number=1MiB" serve net.cfg --budget 1MiB
done
for count in 0 1.5 4294967296; do
  refused --threads "$count" "${infer[@]}"
  refused --batch "$count" "${infer[@]}"
  refused --repeats "$count" bench blocks net.cfg net.weights
  refused --passes "$count" trace make dense -o made.trace
  refused --count "$count" stat 1
  refused --seconds "$count" serve net.cfg --budget 1MiB
done
for time in 0s inf 1 0.0001us 99999999min; do
  refused --interval "$time" stat 1
  refused --for "$time" trace record 1 -o made.json
done
refused --http 65536 "${infer[@]}"
refused --names folder "${infer[@]}"
refused --json folder "${infer[@]}"

# What is given in the name of a file, and is a folder.
for command in 'plan budgets net.cfg --budget 1MiB --profile' 'bench policies net.cfg --disk' 'trace show' 'trace stats' \
  'plan' 'plan activations' 'plan primitives' 'infer net.cfg net.weights picture.ppm --plan' 'model pack net.cfg net.weights -o net.packed --plan' \
  'serve net.cfg --budget 1MiB --plans'; do
  read -ra words <<<"$command"
  weightpager "${words[@]}" folder
  [[ $STATUS == 1 || $STATUS == 2 || $STATUS == 125 ]] || fail "$command folder: status $STATUS; stderr: $(cat "$ERR")"
  expect_error folder
done

# Bounds themselves are taken.
weightpager "${infer[@]}" --tile 4KiB --threshold 0 --overlap 1 --batch 1 --top 1000
expect_status 0
weightpager "${simulate[@]}" --disks 0.001,1000 --windows 4KiB,1024TiB --tile 1024TiB
expect_status 0
