#!/usr/bin/env bash
# --record: every chunk that an engine touches, in order, pass by pass, whatever the policy.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3

model=$SCRATCH/model.gguf
make_llama 200MiB "$model"
cat >"$SCRATCH/engine.py" <<'PYTHON'
import mmap, sys
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for sweep in range(4):
    for chunk in range(len(weights) // (2 << 20)):
        weights[chunk * (2 << 20) + 4096]
PYTHON

for policy in expert lru ring; do
  weightpager run -q --window 64MiB --policy "$policy" --record "$SCRATCH/run.trace" -- \
    python3 "$SCRATCH/engine.py" "$model"
  expect_status 0
  weightpager trace convert "$SCRATCH/run.trace" -o "$SCRATCH/run.json"
  expect_status 0
  jq -e '(.chunks - 1) as $last | [range(0; $last)] as $pass
    | [.touches[][0] | select(. < $last)] == $pass + $pass + $pass + $pass
      and (.pass_begins | length == 4) and (.cyclic | length > $last / 2)' \
    "$SCRATCH/run.json" >/dev/null || fail "$policy: $(jq -c '[.pass_begins, .touches[][0]]' "$SCRATCH/run.json")"
done
weightpager bench policies "$SCRATCH/run.trace" --policy lru,expert --window 50%
expect_status 0

weightpager run -q --window 64MiB --record "$SCRATCH/none.trace" -- true
expect_status 0
expect_error 'no process has mapped a model'
[[ ! -e $SCRATCH/none.trace ]] || fail "a trace of nothing"
weightpager run --window 64MiB --record "$SCRATCH/none/run.trace" -- "${MARKING[@]}"
expect_refusal 'cannot be written'
weightpager run --window 64MiB --policy belady -- "${MARKING[@]}"
expect_refusal 'knows the future'
weightpager run --window 64MiB --policy epxert -- "${MARKING[@]}"
expect_refusal 'did you mean expert?'
