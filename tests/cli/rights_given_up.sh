#!/usr/bin/env bash
# Root's engine that becomes another user is served, and tells what came of it.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3
[[ $(id -u) == 0 ]] || skip "only root can become another user"
PYTHON=/usr/bin/python3
setpriv --reuid=65534 --regid=65534 --clear-groups "$PYTHON" -c 'open("'"$WEIGHTPAGER"'")' 2>/dev/null ||
  skip "no $PYTHON, or the build is in a folder that other users may not enter"
MODEL=$SCRATCH/model.gguf
make_llama 48MiB "$MODEL"
chmod 755 "$SCRATCH"
chmod 644 "$MODEL"
REPORT=$SCRATCH/report.json

# Also where root has a session.
mkdir -m 700 "$SCRATCH/runtime"
export XDG_RUNTIME_DIR=$SCRATCH/runtime
weightpager run --window 32MiB --json "$REPORT" -- \
  setpriv --reuid=65534 --regid=65534 --clear-groups "$PYTHON" -c '
import mmap, os, sys
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(sum(weights[at] for at in range(0, len(weights), 4096)))
# What others of its kind put there is its own, too: no link is followed, nothing of root'"'"'s removed.
folder = os.environ["WEIGHTPAGER_RUN_DIR"]
os.symlink("/etc/passwd", folder + "/1.telemetry")
os.symlink("/etc/passwd", folder + "/1.access-profile")
for act in (lambda: os.listdir(folder), lambda: os.remove(folder + "/marks"), lambda: open(folder + "/marks")):
    try:
        act()
        print("allowed")
    except PermissionError:
        pass
' "$MODEL"
expect_status 0
! grep -q allowed "$OUT" || fail "it may do too much in root's folder"
jq -e '[.processes[] | .command] == ["python3"] and .processes[0].read_bytes > 40000000' "$REPORT" >/dev/null ||
  fail "not told: $(cat "$ERR")"
