#!/usr/bin/env bash
# A server's life as its user sees it: it says how to join, refuses a second of its name, lets an engine in that maps
# the model by another path, ends on SIGTERM with a summary and a report, leaves no socket behind, and comes back
# after it was killed.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
export XDG_RUNTIME_DIR=$SCRATCH

make_llama 48MiB "$SCRATCH/model.gguf"
ln "$SCRATCH/model.gguf" "$SCRATCH/same.gguf"
server=
trap '[[ -z $server ]] || kill -KILL "$server"; rm -rf -- "$SCRATCH"' EXIT

serve() {
  : >"$SCRATCH/said" # what the last one said is no sign of this one
  "$WEIGHTPAGER" serve "$SCRATCH/model.gguf" --window 64MiB --name one --json "$SCRATCH/report.json" 2>"$SCRATCH/said" &
  server=$!
  await_server "$server" one "$SCRATCH/said"
}
# A program that maps the file, reads it all, and prints its sum.
digest='import hashlib, mmap, sys
with open(sys.argv[1], "rb") as f:
    print(hashlib.sha256(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)).hexdigest())'
attached() {
  weightpager run --attach one -- python3 -c "$digest" "$1"
  expect_status 0
  [[ $(cat "$OUT") == "$(sha256sum "$SCRATCH/model.gguf" | cut -d ' ' -f 1)" ]] || fail "other bytes: $(cat "$OUT" "$ERR")"
  grep -q "attached to a server's window" "$ERR" || fail "not attached: $(cat "$ERR")"
}

serve
weightpager serve "$SCRATCH/model.gguf" --window 64MiB --name one
expect_status 1
expect_error 'a server of this name is running'
attached "$SCRATCH/model.gguf"
attached "$SCRATCH/same.gguf"
kill -TERM "$server"
wait "$server" || fail "the server ended with $?: $(cat "$SCRATCH/said")"
server=
grep -q 'served 2 engines' "$SCRATCH/said" || fail "no summary: $(cat "$SCRATCH/said")"
jq -e '.processes[0] | .mapper == "collapse" and .read_bytes <= .model_bytes and .read_bytes > 0' \
  "$SCRATCH/report.json" >/dev/null || fail "read more than once: $(cat "$SCRATCH/report.json")"
[[ -z $(ls -A "$SCRATCH/weightpager") ]] || fail "left behind: $(ls -A "$SCRATCH/weightpager")"

serve
kill -KILL "$server"
wait "$server" || true
serve
attached "$SCRATCH/model.gguf"
