#!/usr/bin/env bash
# Every command with sizes beyond its memory, in a small memory cgroup and under `ulimit -v`: an error in
# words with a status of its own, no signal, no bad_alloc, nothing killed. What is small all the same
# (tables, layouts) may succeed.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

limited=$WP_ROOT/tools/scripts/lib/cgroup.sh
"$limited" --check
! grep -qs '^WP_SANITIZE:[A-Z]*=.' "$(dirname -- "$WEIGHTPAGER")/../CMakeCache.txt" ||
  skip "sanitizers reserve terabytes of address space"
export XDG_CACHE_HOME=$SCRATCH/cache
cd "$SCRATCH"

# net WIDTH FILTERS NAME: few weights, in a file that is a hole, and activations of WIDTH · 416 · FILTERS
# floats.
net() {
  {
    printf '[net]\nwidth=%d\nheight=416\nchannels=3\n' "$1"
    printf '[convolutional]\nfilters=%d\nsize=3\nstride=1\npad=1\nactivation=relu\n' "$2"
    printf '[avgpool]\n[softmax]\n'
  } >"$3.cfg"
  truncate -s $((20 + 4 * $2 * 28)) "$3.weights"
  printf '\0\0\0\0\2\0\0\0' | dd of="$3.weights" conv=notrunc status=none
}
net 32 8 small
net 20000 8 wide
net 1000000 8 huge
net 32 500000 deep
printf 'P6\n32 32\n255\n' >picture.ppm
truncate -s $((13 + 3 * 32 * 32)) picture.ppm
printf 'P6\n16000 16000\n255\n' >wall.ppm
truncate -s $((19 + 3 * 16000 * 16000)) wall.ppm
weightpager model make --size 8MiB -o model.gguf
expect_status 0
weightpager trace make dense --layers 4 --passes 2 -o small.trace
expect_status 0
truncate -s 3GiB long.trace
printf '{"records": [[0, 1, 9000000000000], [1, 2, 9000000000000]]}' >records.json
printf '{"model": {' >half.json
truncate -s 1GiB long.json
{
  printf '[[]'
  yes ',[]' | head -n 7000000 | tr -d '\n'
  printf ']'
} >lists.json

# Words of a command, after what is expected of it: "refused" (an error), or "ends" (in whatever way but
# a signal).
cases=(
  'refused infer wide.cfg wide.weights picture.ppm'
  'refused infer wide.cfg wide.weights picture.ppm --window 4KiB --threads 1024'
  'refused infer huge.cfg huge.weights picture.ppm'
  'refused infer small.cfg small.weights wall.ppm'
  'refused infer deep.cfg deep.weights picture.ppm --pipeline pre'
  'ends    infer small.cfg small.weights picture.ppm --batch 1024'
  'refused infer small.cfg small.weights picture.ppm --window 900TiB'
  'refused infer small.cfg small.weights picture.ppm --window 17000000TiB'
  'refused infer small.cfg small.weights picture.ppm --plan long.json'
  'refused infer small.cfg small.weights picture.ppm --plan lists.json'
  'refused infer small.cfg small.weights picture.ppm --names long.json'
  'refused infer long.json small.weights picture.ppm'
  'refused plan wide.cfg'
  'refused plan wide.cfg --budget 900TiB'
  'refused plan huge.cfg --budget 1GiB --threads 1'
  'refused plan wide.cfg --weights wide.weights --budget 1GiB'
  'refused plan primitives wide.cfg'
  'refused plan primitives wide.cfg --measure'
  'refused plan primitives huge.cfg --budget 900TiB'
  'ends    plan activations huge.cfg'
  'ends    plan activations records.json'
  'refused plan activations long.json'
  'ends    plan budgets huge.cfg --budget 900TiB'
  'ends    plan budgets huge.cfg --budget 900TiB --by blocks'
  'refused plan budgets small.cfg --budget 1MiB --profile long.json'
  'refused plan budgets small.cfg --budget 1MiB --profile half.json'
  'refused plan budgets small.cfg --budget 1MiB --profile .'
  'refused bench blocks wide.cfg wide.weights'
  'refused bench blocks huge.cfg huge.weights --repeats 100000'
  'refused bench pipelines wide.cfg wide.weights --inferences 1000000'
  'refused bench pipelines huge.cfg huge.weights --windows 900TiB'
  'ends    bench simulate huge.cfg --kernels 100 --windows 900TiB --tile 900TiB'
  'refused bench disk none.bin'
  'refused bench policies model.gguf --window 17000000TiB'
  'refused bench policies long.json'
  'refused bench policies model.gguf --disk long.json'
  'refused serve wide.cfg --budget 100MiB --seconds 1'
  'refused serve huge.cfg --budget 900TiB --seconds 1'
  'refused serve small.cfg --budget 1MiB --plans long.json --seconds 1'
  'refused serve model.gguf --window 900TiB --name beyond'
  'refused run --window 900TiB -- true'
  'ends    run --window 8GiB -- true'
  'refused trace make dense --layers 1000000 --dense 900TiB -o made.trace'
  'refused trace make dense --layers 1000000 --passes 1000000 --dense 16MiB -o made.trace'
  'refused trace make random --passes 1000000 -o made.trace'
  'refused trace make moe --layers 1000 --experts 1000000 --slab 1GiB -o made.trace'
  'refused trace make interleaved --passes 1000000 -o made.json'
  'refused trace show long.trace'
  'refused trace stats long.json'
  'refused trace convert long.trace -o made.json'
  'refused trace record 999999999 -o made.json --for 16000min'
  'refused model make --size 17000000TiB -o made.gguf'
  'refused model make --size 900TiB -o made.gguf'
  'ends    model make --net vgg19 -o .'
  'ends    model make --arch llama-moe --experts 18446744073709551615 --size 1GiB -o made.gguf'
  'ends    model show huge.cfg'
  'ends    model show long.json'
  'refused model pack deep.cfg deep.weights -o deep.packed --plan long.json'
  'ends    model pack deep.cfg deep.weights -o deep.packed --force'
  'ends    model pack huge.cfg huge.weights -o huge.packed --force'
  'ends    doctor model.gguf --window 900TiB'
  'ends    doctor long.json'
  'ends    ps'
  'refused stat 999999999 --count 4294967295 --interval 16000min'
  'refused top 999999999 --count 4294967295'
  'refused map 999999999 --tensors'
  'refused hist 999999999'
  'refused ctl 999999999 set window=900TiB'
  'refused metrics 999999999'
)

# look_at HOW EXPECTED WORDS…: at what a command came to.
look_at() {
  local how=$1 expected=$2
  shift 2
  ((STATUS < 124 || STATUS == 125)) || fail "$how: $*: status $STATUS; stderr: $(cat "$ERR")"
  ! grep -qE 'bad_alloc|terminate called|assertion' "$ERR" || fail "$how: $*: $(cat "$ERR")"
  [[ $expected != refused ]] || { ((STATUS > 0)) && grep -q '^weightpager: error: ' "$ERR"; } ||
    fail "$how: $*: status $STATUS, no error; stderr: $(cat "$ERR")"
}

for line in "${cases[@]}"; do
  read -r expected rest <<<"$line"
  read -ra words <<<"$rest"
  STATUS=0
  timeout 30 "$limited" --limit $((96 << 20)) --report group.json -- \
    "$WEIGHTPAGER" "${words[@]}" >"$OUT" 2>"$ERR" </dev/null || STATUS=$?
  look_at 'in a group of 96 MiB' "$expected" "${words[@]}"
  [[ $(jq .oom_kills group.json) == 0 ]] || fail "something was killed: ${words[*]}"
  STATUS=0
  (
    ulimit -v 400000
    exec timeout 30 "$WEIGHTPAGER" "${words[@]}"
  ) >"$OUT" 2>"$ERR" </dev/null || STATUS=$?
  look_at 'ulimit -v 400000' "$expected" "${words[@]}"
done
