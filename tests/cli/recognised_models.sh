#!/usr/bin/env bash
# What weightpager takes for a model the interposer serves, whatever its names: links into a cache of hashes, relative
# globs, globs with folders, files that are renamed or removed before they are mapped, other cases of an ending, what a
# server serves; and what doctor advises works.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3
export XDG_RUNTIME_DIR=$SCRATCH
server=
trap '[[ -z $server ]] || kill "$server"; wait 2>/dev/null; rm -rf -- "$SCRATCH"' EXIT
cd "$SCRATCH"

make_llama 40MiB "$SCRATCH/whole.gguf"
mkdir -p hub/blobs hub/snapshot
head -c 40M /dev/urandom >hub/blobs/1234
ln -s ../blobs/1234 hub/snapshot/weights.raw
ln -s ../blobs/1234 hub/snapshot/model.onnx_data
printf 'a graph' >hub/snapshot/model.onnx
mv whole.gguf hub/blobs/5678
ln -s ../blobs/5678 hub/snapshot/model.GGUF
cp hub/blobs/1234 weights.pt

# An engine: opens a file in one way, has something done to its name, maps it and says whether it has the file's bytes.
cat >engine.py <<'PYTHON'
import hashlib, mmap, os, sys
way, path = sys.argv[1:]
if way in ("renamed", "removed"):
    os.link(path, "passing.pt")
    path = "passing.pt"
if way == "beside": path += "_data"  # as ONNX Runtime finds the weights of a graph
if way == "folder":
    fd = os.open(os.path.basename(path), os.O_RDONLY, dir_fd=os.open(os.path.dirname(path), os.O_RDONLY))
else:
    fd = os.open(path, os.O_RDONLY)
if way == "renamed": os.rename(path, "final.part")
if way == "removed": os.unlink(path)
expected = hashlib.sha256(os.pread(fd, os.fstat(fd).st_size, 0)).digest()
sys.exit(hashlib.sha256(mmap.mmap(fd, 0, prot=mmap.PROT_READ)).digest() != expected)
PYTHON

# served WINDOW WAY FILE [OPTION…]
served() {
  rm -f -- report.json final.part
  weightpager run ${1:+--window "$1"} "${@:4}" --json report.json -- python3 engine.py "$2" "$3"
  expect_status 0
  jq -e '.processes | length == 1 and .[0].models == 1' report.json >/dev/null ||
    fail "not served: $*: $(cat "$ERR")"
}
snapshot=$SCRATCH/hub/snapshot
served 90% plain hub/snapshot/weights.raw --match '*.raw'
served 32MiB folder "$snapshot/weights.raw" --match '*.raw'
served 90% plain "$snapshot/weights.raw" --match '*/snapshot/*'
served 90% plain hub/snapshot/../snapshot/weights.raw --match 'hub/snapshot/*.raw'
served 32MiB folder "$snapshot/weights.raw" --match "$snapshot/weights.*"
served 90% plain "$snapshot/model.GGUF"
served 90% plain "$snapshot/model.onnx_data"
served 90% beside hub/snapshot/model.onnx
served 90% plain hub/blobs/5678
served 90% plain ./weights.pt --match ./weights.pt
served 90% plain "$SCRATCH/weights.pt" --match 'nothing*' --match './[uvw]*.pt'
served 32MiB renamed weights.pt --match '*.pt'
served 32MiB removed weights.pt --match '*.pt'

doctor --json "$snapshot/weights.raw"
advice=$(jq -r '.rows[] | select(.id == "model").cure' "$OUT")
[[ $advice == "weightpager run --match '"*"'" ]] || fail "doctor advises: $advice"
glob=${advice#*\'}
served 90% plain "$snapshot/weights.raw" --match "${glob%\'}"
doctor --json hub/blobs/5678
expect_row model ok

# What is not meant stays the kernel's; what cannot be meant is refused.
weightpager run --window 32MiB --match ./weights.pt --json report.json -- python3 engine.py plain hub/snapshot/weights.raw
expect_status 0
jq -e '.processes == []' report.json >/dev/null || fail "served: $(cat report.json)"
weightpager run --window 32MiB --match '*.{pt,bin}' -- "${MARKING[@]}"
expect_refusal 'no choices in braces'

"$WEIGHTPAGER" serve hub/snapshot/weights.raw --window 32MiB --name hub >/dev/null 2>said &
server=$!
await_server "$server" hub said
served '' plain hub/blobs/1234 --attach hub
