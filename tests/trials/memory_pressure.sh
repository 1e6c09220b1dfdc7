#!/usr/bin/env bash
# An engine whose own memory grows until window and engine do not fit below the cgroup's limit any more:
# the window shrinks before the OOM killer comes, and says so once.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
"$WP_ROOT/tools/scripts/lib/cgroup.sh" --check >/dev/null || skip "no memory cgroup can be made here"
"$WEIGHTPAGER" model make --size 160MiB --type f16 -o "$MODEL" >/dev/null

for mapper in "${MAPPERS[@]}"; do
  rm -f -- "$REPORT"
  within_limit "$WP_ROOT/tools/scripts/lib/cgroup.sh" --limit 192MiB --report "$SCRATCH/group.json" -- \
    "$WEIGHTPAGER" run --window 128MiB --mapper "$mapper" --json "$REPORT" -- \
    python3 "$WP_ROOT/tests/trials/lib/growing_engine.py" "$MODEL"
  skip_for_lack "$ERR"
  if [[ $STATUS != 0 ]]; then
    wrong "mapper $mapper: status $STATUS, $(cat "$SCRATCH/group.json")"
  elif ! grep -q 'the window shrinks from 128.0 MiB' "$ERR"; then
    wrong "mapper $mapper: the window did not shrink"
  else
    note "mapper $mapper: $(jq -c '[.max_bytes, .oom_kills]' "$SCRATCH/group.json") bytes at most and kills; right bytes"
  fi
done
finish
