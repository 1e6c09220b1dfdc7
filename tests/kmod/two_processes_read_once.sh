#!/usr/bin/env bash
# Two engines at once and one pager, on the module: each byte is read from the disk once. Where the module is loaded:
# tests/kernels/module_6_1.sh.
set -eu
[[ -w /dev/weightpager ]] || { echo "SKIPPED: weightpager.ko is not loaded" && exit 77; }
scratch=$(mktemp -d -p "$PWD")
trap 'rm -rf -- "$scratch"' EXIT
export XDG_RUNTIME_DIR=$scratch
"$WEIGHTPAGER" model make --size 48MiB --type f16 -o "$scratch/model.gguf" 2>/dev/null

"$WEIGHTPAGER" serve "$scratch/model.gguf" --window 64MiB --name one --json "$scratch/report.json" 2>"$scratch/said" &
server=$!
until grep -q 'weightpager run --attach one' "$scratch/said"; do
  kill -0 "$server" || { cat "$scratch/said" && exit 1; }
  sleep 0.1
done

engines=()
for number in 1 2; do
  "$WEIGHTPAGER" run --attach one -- "$WEIGHTPAGER_BUILD/tests/preload_engine" plain "$scratch/model.gguf" \
    >"$scratch/engine$number" 2>&1 &
  engines+=($!)
done
for engine in "${engines[@]}"; do
  wait "$engine" || { cat "$scratch"/engine* && exit 1; }
done
grep -q "attached to a server's window" "$scratch/engine1"
grep -q "attached to a server's window" "$scratch/engine2"

kill -TERM "$server"
wait "$server" || { cat "$scratch/said" && exit 1; }
jq -c '.processes[0] | {mapper, read_bytes, model_bytes}' "$scratch/report.json"
grep -q 'served 2 engines' "$scratch/said"
# All of it, and nothing twice.
jq -e '.processes[0] | .mapper == "module" and .read_bytes <= .model_bytes and .read_bytes > .model_bytes * 0.9' \
  "$scratch/report.json" >/dev/null
