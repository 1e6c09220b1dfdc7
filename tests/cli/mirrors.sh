#!/usr/bin/env bash
# --mirror: sound copies are read, too; wrong ones are refused before the engine starts.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3

export XDG_CACHE_HOME=$SCRATCH/cache XDG_RUNTIME_DIR=$SCRATCH
server=
trap '[[ -z $server ]] || kill -KILL "$server"; rm -rf -- "$SCRATCH"' EXIT
mkdir "$SCRATCH"/{a,b,c}
model=$SCRATCH/a/model.gguf
copy=$SCRATCH/b/model.gguf
make_llama 100MiB "$model"
cp "$model" "$copy"
cat >"$SCRATCH/engine.py" <<'PYTHON'
import mmap, sys, zlib
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for sweep in range(3):
    print(zlib.crc32(weights))
PYTHON
python3 "$SCRATCH/engine.py" "$model" >"$SCRATCH/sums"
reading=(python3 "$SCRATCH/engine.py" "$model")
number() { jq "$1" "$SCRATCH/run.json"; }

# refused PATTERN OPTION…: the run is refused with that text, and a cure.
refused() {
  local pattern=$1
  shift
  weightpager run --window 64MiB "$@" -- "${MARKING[@]}" "$model"
  expect_status 125
  grep -q -- "$pattern" "$ERR" || fail "not said: $pattern: $(cat "$ERR")"
  [[ $(wc -l <"$ERR") == 2 ]] || fail "more or less than what is wrong and what to do: $(cat "$ERR")"
  [[ ! -e $MARKER ]] || fail "the engine was started"
}

for start in first second; do
  weightpager run --window 64MiB --mirror "$SCRATCH/b" --json "$SCRATCH/run.json" -- "${reading[@]}"
  expect_status 0
  cmp "$SCRATCH/sums" "$OUT" || fail "other bytes"
  [[ $(number '.config.mirrors | length') == 1 ]] || fail "config: $(number .config)"
  [[ $(number '.processes[0].mirror_1_read_bytes') -gt 0 ]] || fail "the mirror was not read: $(cat "$ERR")"
  [[ $(number '.processes[0].copies_given_up') == 0 ]] || fail "given up: $(cat "$ERR")"
  grep -q "^  mirrors .* of this from $SCRATCH/b$" "$ERR" || fail "no line in the summary: $(cat "$ERR")"
  grep -q 'lies on the same filesystem' "$ERR" || fail "not said that it is one drive: $(cat "$ERR")"
  kept=("$XDG_CACHE_HOME"/weightpager/checksum-*)
  [[ ${#kept[@]} == 2 ]] || fail "checksums: ${kept[*]}"
  [[ $start == first ]] && stat -c '%n %z' "${kept[@]}" >"$SCRATCH/kept"
  stat -c '%n %z' "${kept[@]}" | cmp - "$SCRATCH/kept" || fail "checked once more"
done

# A server reads from them for its guests.
"$WEIGHTPAGER" serve "$model" --window 64MiB --name one --mirror "$SCRATCH/b" --json "$SCRATCH/run.json" 2>"$SCRATCH/said" &
server=$!
await_server "$server" one "$SCRATCH/said"
weightpager run --attach one -- "${reading[@]}"
expect_status 0
cmp "$SCRATCH/sums" "$OUT" || fail "other bytes"
kill -TERM "$server"
wait "$server" || fail "the server ended with status $?"
server=
[[ $(number '.processes[0].mirror_1_read_bytes') -gt 0 ]] || fail "the server read nothing from the mirror"

weightpager serve "$model" --window 64MiB --name one --mirror "$SCRATCH/c"
expect_status 1
grep -q 'has no copy of' "$ERR" || fail "not refused: $(cat "$ERR")"
refused 'has no copy of' --mirror "$SCRATCH/b" --mirror "$SCRATCH/c"
refused 'there is no such directory' --mirror "$SCRATCH/d"
refused 'at most 3' "--mirror=$SCRATCH/"{a,b,c,b}
refused 'is given twice' --mirror "$SCRATCH/b" --mirror "$SCRATCH/c/../b"
refused 'is .* itself' --mirror "$SCRATCH/a"
truncate -s -1 "$copy"
refused 'cut short' --mirror "$SCRATCH/b"
cp "$model" "$copy"
printf '\xff' | dd of="$copy" bs=1 seek=77777777 conv=notrunc status=none
cmp -s "$model" "$copy" && printf '\x7f' | dd of="$copy" bs=1 seek=77777777 conv=notrunc status=none
refused 'has other bytes' --mirror "$SCRATCH/b"

weightpager run --window 64MiB --mirror "$SCRATCH/b" -- "${MARKING[@]}"
expect_status 125
grep -q 'no model is among' "$ERR" || fail "$(cat "$ERR")"
weightpager run --attach nobody --mirror "$SCRATCH/b" -- "${MARKING[@]}"
expect_status 125
grep -q 'exclude each other' "$ERR" || fail "$(cat "$ERR")"

# Altered while the engine runs: told by one line, and the bytes are the model's. Which drive is
# asked is the pager's choice, so the engine reads on until the altered one was (a drive that rests
# counts as twice as fast each second).
cp "$model" "$copy"
cat >>"$SCRATCH/engine.py" <<'PYTHON'
import os, time
with open(os.environ["COPY"], "r+b") as copy:
    copy.seek(30 << 20)
    copy.write(bytes(60 << 20))
until = time.monotonic() + 60
while time.monotonic() < until:
    print(zlib.crc32(weights))
    with open(os.environ["SAID"]) as said:
        if "was changed while it was in use" in said.read():
            break
    time.sleep(0.1)
print(zlib.crc32(weights))
PYTHON
export COPY=$copy SAID=$ERR
weightpager run --window 64MiB --mirror "$SCRATCH/b" --json "$SCRATCH/run.json" -- "${reading[@]}"
expect_status 0
[[ $(wc -l <"$OUT") -ge 5 ]] || fail "too few sweeps: $(cat "$OUT")"
sort -u "$OUT" | cmp - <(sort -u "$SCRATCH/sums") || fail "other bytes"
[[ $(number '.processes[0].copies_given_up') == 1 && $(grep -c 'was changed while it was in use' "$ERR") == 1 ]] ||
  fail "not told once: $(cat "$ERR")"
