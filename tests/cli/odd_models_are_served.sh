#!/usr/bin/env bash
# Models that are odd, but that engines read: an index that promises a tensor which no shard has, tensors of five
# dimensions, types and versions that weightpager does not know. They are served, with a notice where there is
# something to say; a shard that is missing is refused by its name.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3
cd "$SCRATCH"
server=
trap '[[ -z $server ]] || kill "$server"; wait 2>/dev/null; rm -rf -- "$SCRATCH"' EXIT
export XDG_RUNTIME_DIR=$SCRATCH

cat >make.py <<'PYTHON'
import json, os, struct
def gguf(path, version, shape):
    name = b"patch_embedding.weight"
    head = b"GGUF" + struct.pack("<IQQ", version, 1, 0) + struct.pack("<Q", len(name)) + name
    head += struct.pack("<I", len(shape)) + struct.pack("<%dQ" % len(shape), *shape) + struct.pack("<IQ", 0, 0)
    head += b"\0" * (-len(head) % 32)
    open(path, "wb").write(head + os.urandom(40 << 20))
gguf("five.gguf", 3, [10 << 10, 4, 2, 4, 32])
gguf("new.gguf", 9, [10 << 20])
def shard(path, tensor, dtype):
    text = json.dumps({tensor: {"dtype": dtype, "shape": [40 << 20], "data_offsets": [0, 40 << 20]}}).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + os.urandom(40 << 20))
os.mkdir("sharded")
shard("sharded/model-00001-of-00002.safetensors", "a", "U8")
shard("sharded/model-00002-of-00002.safetensors", "b", "NEW8")
files = {name: "model-0000%d-of-00002.safetensors" % at for name, at in (("a", 1), ("b", 2), ("mtp.fc.weight", 2))}
json.dump({"weight_map": files}, open("sharded/model.safetensors.index.json", "w"))
PYTHON
python3 make.py
cat >engine.py <<'PYTHON'
import hashlib, mmap, sys
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        expected = hashlib.sha256(file.read()).digest()
        if hashlib.sha256(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).digest() != expected: sys.exit(path)
PYTHON

# served MODELS RUN_OPTION… -- ARGUMENTS of the engine
served() {
  weightpager run --json report.json "${@:2}"
  expect_status 0
  jq -e --argjson models "$1" '.processes | length == 1 and .[0].models == $models' report.json >/dev/null ||
    fail "not served: $*: $(cat "$ERR")"
}
served 1 --window 90% -- python3 engine.py "" five.gguf
! grep -q 'file order' "$ERR" || fail "not understood: $(cat "$ERR")"
served 1 --window 90% -- python3 engine.py "" new.gguf
grep -q 'found version 9: paged in file order' "$ERR" || fail "no notice: $(cat "$ERR")"
served 2 --window 50% -- python3 engine.py sharded sharded/*.safetensors
grep -q "'mtp.fc.weight' in 'model-00002-of-00002.safetensors', found it in no file" "$ERR" || fail "no notice: $(cat "$ERR")"
served 1 --window 90% --quiet -- python3 engine.py "" new.gguf
[[ ! -s $ERR ]] || fail "not quiet: $(cat "$ERR")"

"$WEIGHTPAGER" serve new.gguf --window 32MiB --name odd >/dev/null 2>said &
server=$!
await_server "$server" odd said
served 1 --attach odd -- python3 engine.py "" new.gguf

rm sharded/model-00001-of-00002.safetensors
weightpager run --window 64MiB -- "${MARKING[@]}" sharded
expect_refusal 'sharded/model-00001-of-00002.safetensors: this shard is missing, though sharded/model.safetensors.index.json names it'
