#!/usr/bin/env bash
# Each call that engines make on their weights shows what plain mmap shows, with both mappers. The engine
# (engine.cc) first runs without weightpager: what it expects is what the kernel does.
set -eu
engine=$WEIGHTPAGER_BUILD/tests/preload_engine
model=$(mktemp -d -p "$PWD")/model.gguf
trap 'rm -rf "$(dirname "$model")"' EXIT
"$WEIGHTPAGER" model make --arch llama --size 96MiB --type f16 -o "$model" 2>/dev/null

served() {
  "$WEIGHTPAGER" run --window 32MiB --mapper "$1" --json "$model.json" -- "$engine" "$2" "$model" \
    2>"$model.err"
}

"$engine" plain "$model"
failures=0
for mapper in move copy; do
  for call in plain greedy parts child close-all remap residency write kernel splice until-the-end; do
    if ! served "$mapper" "$call" >"$model.out"; then
      if grep -q "does not work here\|userfaultfd is not available\|needs UFFDIO_MOVE" "$model.err"; then
        echo "skipped: $(grep error: "$model.err")"
        exit 77
      fi
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
served move killed || status=$?
if [ "$status" != 137 ] || ! grep -q "hidden by prefetch" "$model.err"; then
  echo "FAILED: killed engine: status $status"
  cat "$model.err"
  failures=$((failures + 1))
fi
exit "$failures"
