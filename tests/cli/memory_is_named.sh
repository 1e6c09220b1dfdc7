#!/usr/bin/env bash
# What a planned run takes beside its budget is named, with its size: nothing is left over.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

export XDG_CACHE_HOME=$SCRATCH/cache
cd "$SCRATCH"
# Pictures large enough that maxima over windows need memory of their own to compute in.
{
  printf '[net]\nheight=160\nwidth=160\nchannels=3\n'
  printf '[convolutional]\nfilters=64\nsize=3\nstride=1\npad=1\nactivation=relu\n'
  printf '[maxpool]\nsize=3\nstride=2\n'
  printf '[convolutional]\nfilters=96\nsize=3\nstride=2\npad=1\nactivation=relu\n'
  printf '[avgpool]\n[softmax]\n'
} >net.cfg
weightpager model show net.cfg --json
python3 - "$(jq .weights_file_bytes "$OUT")" <<'PY'
import array, random, struct, sys
random.seed(1)
values = array.array("f", (random.uniform(-0.1, 0.1) for _ in range((int(sys.argv[1]) - 20) // 4)))
open("net.weights", "wb").write(struct.pack("<5i", 0, 2, 0, 0, 0) + values.tobytes())
open("picture.ppm", "wb").write(b"P6\n160 160\n255\n" + random.randbytes(160 * 160 * 3))
PY

# peak_of ARGUMENTS…: the most that `infer` had at once, as the kernel tells who started it.
peak_of() {
  python3 - "$WEIGHTPAGER" infer "$@" <<'PY'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=open("summary", "w"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
PY
}

# everything FILE: what a run's report names, added up.
everything() {
  jq '.window_bytes + .activation_bytes + .scratch_bytes + .program_bytes + .kernels_bytes + .heap_bytes +
    .stacks_bytes + .reader_bytes + .counted_twice_bytes + .passing_bytes' "$1"
}

plain_peak=$(peak_of net.cfg net.weights picture.ppm --threads 1 --json plain.json)
weightpager plan net.cfg --threads 1 --budget 24MiB -o plan.json
expect_status 0
weightpager model pack net.cfg net.weights --plan plan.json -f -o net.planned
expect_status 0
peak=$(peak_of net.cfg net.planned picture.ppm --plan plan.json --repeat 3 --json planned.json)
grep -qE '^  budget    24.0 MiB for weights, activations and workspace, which take [0-9.]+ .iB$' summary ||
  fail "the budget: $(cat summary)"
grep -qE '^  all else  program .*, compiled kernels .*, heap .*, stacks .*, reader .*, counted twice .*, gone again' \
  summary || fail "all else: $(cat summary)"
jq -e '.budget_bytes == 24 * 1048576 and .window_bytes + .activation_bytes <= .budget_bytes' planned.json \
  >/dev/null || fail "more than the budget: $(cat planned.json)"

# The counters of the kernel lag behind by some pages of each processor; the process goes on to write its report.
tolerance_bytes=$((2 * 1048576))
for run in "plain.json $plain_peak" "planned.json $peak"; do
  read -r file peak_bytes <<<"$run"
  named_bytes=$(everything "$file")
  ((named_bytes + tolerance_bytes >= peak_bytes)) ||
    fail "$file: $named_bytes bytes are named, of $peak_bytes: $(cat "$file")"
  ((named_bytes <= peak_bytes + tolerance_bytes)) ||
    fail "$file: $named_bytes bytes are named, and there were $peak_bytes: $(cat "$file")"
done

# Beyond the budget and what a plain run takes beside its own memory there is what operations take,
# and no more.
if ! grep -qs '^WP_SANITIZE:[A-Z]*=.' "$(dirname -- "$WEIGHTPAGER")/../CMakeCache.txt"; then
  base_bytes=$((plain_peak - $(jq '.window_bytes + .activation_bytes + .scratch_bytes' plain.json)))
  used_bytes=$(jq '.window_bytes + .activation_bytes + .scratch_bytes + .kernels_bytes + .counted_twice_bytes' planned.json)
  ((peak <= used_bytes + base_bytes + tolerance_bytes)) ||
    fail "planned: $peak bytes, of which $used_bytes are known, and $base_bytes beside a plain run"
fi
