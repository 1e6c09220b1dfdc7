#!/usr/bin/env bash
# Each call that engines make on their weights shows what plain mmap shows, with each mapper that works
# here. The engine (engine.cc) first runs without weightpager: what it expects is what the kernel does.
set -eu
engine=$WEIGHTPAGER_BUILD/tests/preload_engine
model=$(mktemp -d -p "$PWD")/model.gguf
trap 'rm -rf "$(dirname "$model")"' EXIT
"$WEIGHTPAGER" model make --arch llama --size 96MiB --type f16 -o "$model" 2>/dev/null

served() {
  "$WEIGHTPAGER" run --window 32MiB --mapper "$1" --json "$model.json" -- "$engine" "$2" "$model" \
    2>"$model.err"
}

# Where a mapper does not work the engine does not start, and weightpager says why.
works_here() {
  served "$1" plain >/dev/null || true
  ! grep "does not work here\|userfaultfd is not available\|needs UFFDIO_MOVE\|the kernel module's" "$model.err"
}

"$engine" plain "$model"
failures=0
mappers=()
for mapper in move collapse copy module; do
  works_here "$mapper" && mappers+=("$mapper")
done
if [ "${#mappers[@]}" = 0 ]; then
  echo "SKIPPED: no mapper works here"
  exit 77
fi
for mapper in "${mappers[@]}"; do
  for call in plain greedy parts child close-all remap residency write kernel splice until-the-end; do
    if ! served "$mapper" "$call" >"$model.out"; then
      echo "FAILED: $call, mapper $mapper"
      cat "$model.err"
      failures=$((failures + 1))
    fi
  done
  # What was served was served by the pager, within its window.
  jq -e '.processes[0].mapper == "'"$mapper"'"' "$model.json" >/dev/null ||
    { echo "FAILED: not served by mapper $mapper"; cat "$model.json"; failures=$((failures + 1)); }
done
# A killed engine ends as such, and its numbers survive it.
status=0
served "${mappers[0]}" killed || status=$?
if [ "$status" != 137 ] || ! grep -q "hidden by prefetch" "$model.err"; then
  echo "FAILED: killed engine: status $status"
  cat "$model.err"
  failures=$((failures + 1))
fi
exit "$failures"
