#!/usr/bin/env bash
# Networks in a memory cgroup that allows less than their budget keep to the group's limit, and get more when
# it rises.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

limited=$WP_ROOT/tools/scripts/lib/cgroup.sh
"$limited" --check

make_networks squeezenet yolov3-tiny
least=$("$WEIGHTPAGER" serve "$SCRATCH/squeezenet.cfg" "$SCRATCH/yolov3-tiny.cfg" --budget 1MiB 2>&1 |
  sed -n 's/.*give --budget \([0-9]*\)MiB.*/\1/p')
# 64 MiB and 16 MiB of slack for the process; the group's limit leaves 8 MiB more than the least.
limit=$(((least + 8 + 80) << 20))
report=$SCRATCH/report.json
"$limited" --limit $limit --report "$SCRATCH/group.json" -- "$WEIGHTPAGER" serve "$SCRATCH/squeezenet.cfg" \
  "$SCRATCH/yolov3-tiny.cfg" --budget 300MiB --seconds 6 --json "$report" >"$OUT" 2>"$ERR" &
serving=$!
for ((i = 0; i < 100; ++i)); do
  grep -q ' s: .* MiB, windows' "$ERR" && break
  sleep 0.1
done
grep -q "instead of 300.0 MiB" "$ERR" || fail "no word of the limit: $(cat "$ERR")"
process=$(pgrep -n -f -- "serve $SCRATCH/squeezenet.cfg")
raise() {
  local path
  path=$(awk -F: '$2 ~ /(^|,)memory(,|$)/ { print $3 }' "/proc/$process/cgroup")
  for file in /sys/fs/cgroup/memory"$path"/memory.memsw.limit_in_bytes /sys/fs/cgroup/memory"$path"/memory.limit_in_bytes \
    /sys/fs/cgroup"$(sed -n 's/^0:://p' "/proc/$process/cgroup")"/memory.max; do
    [[ ! -w $file ]] || echo $((600 << 20)) >"$file"
  done
}
raise
STATUS=0
wait $serving || STATUS=$?
expect_status 0
jq -e '.oom_kills == 0' "$SCRATCH/group.json" >/dev/null || fail "killed: $(cat "$SCRATCH/group.json")"
jq -e --argjson limit $limit '.changes[0].budget_bytes < $limit' "$report" >/dev/null ||
  fail "began beyond the limit: $(jq -c .changes "$report")"
jq -e '.changes[-1].budget_bytes == 314572800' "$report" >/dev/null ||
  fail "the limit rose, the budget did not: $(jq -c .changes "$report")"
jq -e 'all(.networks[]; .window_bytes == .weights_bytes)' "$report" >/dev/null || fail "no windows for all weights"
