#!/usr/bin/env bash
# An engine that reads its model is served without any option, in $TMPDIR. One that maps its model keeps its own memory
# to itself, as does one that opens no model, and any under --no-spill.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3 cc

export XDG_CACHE_HOME=$SCRATCH/cache XDG_RUNTIME_DIR=$SCRATCH
# Not in $SCRATCH, which may lie in memory.
TMPDIR=$(mktemp -d -p "$PWD" spill.XXXXXX)
export TMPDIR
trap 'rm -rf -- "$SCRATCH" "$TMPDIR"' EXIT
MODEL=$SCRATCH/model.gguf
make_llama 64MiB "$MODEL"
sha256sum <"$MODEL" >"$SCRATCH/digest"

cat >"$SCRATCH/engine.py" <<'PYTHON'
import ctypes, hashlib, mmap, os, sys

how, model = sys.argv[1], sys.argv[2]


def read():
    with open(model, "rb", buffering=0) as file:
        return file.readall()


def digest(weights):
    return hashlib.sha256(weights).hexdigest() + "  -"


if how == "read":
    print(digest(read()))
elif how == "read after other work":
    with open(model, "rb") as file:
        file.read(64)
    block = bytearray(12 << 20)
    block.extend(bytes(2 << 20))
    del block
    print(digest(read()))
elif how == "in a child":
    child = os.fork()
    if child == 0:
        print(digest(read()), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
elif how == "deep bound":
    ctypes.CDLL(sys.argv[3], mode=os.RTLD_NOW | 8)
    print(digest(read()))
elif how == "deep bound when it has read":
    weights = read()
    ctypes.CDLL(sys.argv[3], mode=os.RTLD_NOW | 8)
    print(digest(weights))
elif how == "renamed":
    weights = read()
    os.chmod(model, 0o600)
    os.link(model, model + ".kept")
    os.rename(model, model + ".old")
    os.utime(model + ".old", ns=(1, os.stat(model + ".old").st_mtime_ns))
    print(digest(weights))
    os.rename(model + ".kept", model)
    os.remove(model + ".old")
elif how == "saved anew":
    weights = read()
    os.remove(model)
    with open(model, "wb") as file:
        file.write(weights)
    print(digest(weights))
elif how == "written by another name":
    changed = os.open(model, os.O_RDWR)
    weights = read()
    byte = os.pread(changed, 1, 40 << 20)
    os.pwrite(changed, bytes([byte[0] ^ 255]), 40 << 20)
    print(digest(weights))
    os.pwrite(changed, byte, 40 << 20)
elif how == "scratch and map":
    with open(model, "rb") as file:
        file.read(64)
    blocks = [bytearray(bytes([i]) * (8 << 20)) for i in range(8)]
    weights = mmap.mmap(os.open(model, os.O_RDONLY), 0, prot=mmap.PROT_READ)
    print(digest(weights))
elif how == "look and work":
    with open(model, "rb") as file:
        file.read(64)
    blocks = [bytearray(bytes([i]) * (8 << 20)) for i in range(16)]
    for _ in range(2):
        assert all(block.count(i) == len(block) for i, block in enumerate(blocks))
    print(open(sys.argv[4]).read(), end="")
elif how == "map and copy":
    weights = mmap.mmap(os.open(model, os.O_RDONLY), 0, prot=mmap.PROT_READ)
    print(digest(bytes(weights)))
elif how == "work":
    blocks = [bytearray(bytes([i]) * (8 << 20)) for i in range(8)]
    assert all(block.count(i) == len(block) for i, block in enumerate(blocks))
    os._exit(0)
PYTHON

number() { jq "[.processes[] | .$1] | max // 0" "$SCRATCH/run.json"; }
# run_engine HOW OPTION…: the engine goes to its end, and has seen the model's bytes if it looked at any.
run_engine() {
  weightpager run --window 32MiB --json "$SCRATCH/run.json" "${@:2}" -- \
    python3 "$SCRATCH/engine.py" "$1" "$MODEL" "$SCRATCH/deep.so" "$SCRATCH/digest"
  skip_for_lack "$ERR"
  [[ $STATUS == 0 ]] || fail "$*: the engine failed: $(cat "$ERR")"
  [[ $1 == work ]] || cmp "$OUT" "$SCRATCH/digest" || fail "$*: other bytes"
  [[ -z $(ls -A "$TMPDIR") ]] || fail "$*: something is left: $(ls -A "$TMPDIR")"
}
served() {
  run_engine "$@"
  (($(number lazy_read_bytes) >= 50 << 20)) || fail "$*: read at once: $(cat "$ERR")"
  (($(number resident_bytes_max) <= 32 << 20)) || fail "$*: beyond the window: $(number resident_bytes_max)"
}
not_served() {
  run_engine "$@"
  [[ $(number large_block_bytes_max) == 0 ]] || fail "$*: has served blocks: $(cat "$ERR")"
}
cause() { jq -r '.findings[0].cause' "$SCRATCH/run.json"; }

run_engine read
# Where memory cannot be served, the engine runs as it would without.
if [[ $(jq -r .config.spilling "$SCRATCH/run.json") == none ]]; then
  [[ $(cause) == model_read ]] || fail "not told: $(cat "$ERR")"
  skip "memory of the engine's own cannot be served here"
fi
[[ $(jq -r '.config | .spilling, .spill' "$SCRATCH/run.json" | paste -sd' ') == "readers $TMPDIR" ]] ||
  fail "not told: $(jq -c .config "$SCRATCH/run.json")"
served read
served 'in a child'
served 'read after other work'

cc -shared -fPIC -x c -o "$SCRATCH/deep.so" - <<<'int deep(void) { return 0; }'
not_served 'deep bound'
! grep -q RTLD_DEEPBIND "$ERR" || fail "warns of what it does not do: $(cat "$ERR")"

# What it has got already is at risk.
served 'deep bound when it has read'
grep -q RTLD_DEEPBIND "$ERR" || fail "no warning: $(cat "$ERR")"

# What is no write to the file harms nobody.
served renamed
served 'saved anew'
run_engine 'written by another name'
sha256sum <"$MODEL" | cmp - "$SCRATCH/digest" || fail "the model is not what it was"

# A folder that is gone when the engine needs it: it maps its model all the same.
gone=$TMPDIR/gone
mkdir "$gone"
TMPDIR=$gone weightpager run --window 32MiB --json "$SCRATCH/run.json" -- \
  sh -c "rmdir '$gone'; exec python3 '$SCRATCH/engine.py' 'scratch and map' '$MODEL'"
expect_status 0
cmp "$OUT" "$SCRATCH/digest" || fail "other bytes without the folder: $(cat "$ERR")"
[[ $(number mapped_file_bytes) == $(stat -c %s "$MODEL") ]] || fail "the model is not served: $(cat "$ERR")"
grep -q "memory of the engine's own is not served: cannot make a spill file" "$ERR" || fail "not told: $(cat "$ERR")"

# An engine that only looks at a model's header computes in memory of its own.
run_engine 'look and work'
[[ $(number spill_written_bytes) == 0 ]] || fail "what it computes goes to the disk: $(cat "$ERR")"

not_served 'map and copy'
[[ $(number mapped_file_bytes) == $(stat -c %s "$MODEL") ]] || fail "the model is not served: $(cat "$ERR")"
not_served work
[[ $(jq .processes "$SCRATCH/run.json") == '[]' ]] || fail "a program without weights has a pager: $(cat "$ERR")"

not_served read --no-spill
[[ $(cause) == model_read ]] || fail "not told: $(cat "$ERR")"
grep -q -- '--spill' "$ERR" || fail "no cure: $(cat "$ERR")"
not_served read --mapper copy
(ulimit -v 4000000 && not_served read) || exit
if [[ $(stat -f -c %T /dev/shm) == tmpfs ]]; then
  TMPDIR=/dev/shm not_served read
  grep -q 'what it reads is not served: cannot make a spill file in /dev/shm' "$ERR" || fail "not told: $(cat "$ERR")"
fi

weightpager run --window 32MiB --spill "$TMPDIR" --no-spill -- "${MARKING[@]}"
expect_status 125
expect_error 'exclude each other'
[[ ! -e $MARKER ]] || fail "the engine was started"
