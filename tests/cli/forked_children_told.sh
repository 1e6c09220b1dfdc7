#!/usr/bin/env bash
# Children that compute on their parent's weights have the plain file: the summary says so, and does not say that
# everything fitted.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer
require_programs python3
PYTHON=$(python3 -c 'import os; print(os.path.realpath("/proc/self/exe"))')
MODEL=$SCRATCH/model.gguf
make_llama 48MiB "$MODEL"
REPORT=$SCRATCH/report.json

# workers CODE: Python maps the model and runs CODE, in which `work()` touches all of it.
workers() {
  weightpager run --window 64MiB --json "$REPORT" -- "$PYTHON" -c '
import mmap, os, subprocess, sys
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
def work():
    sum(weights[at] for at in range(0, len(weights), 4096))
def child(act):
    if os.fork() == 0:
        act()
        os._exit(0)
'"$1" "$MODEL"
  expect_status 0
}

workers '
child(work)
child(work)
child(lambda: None)
child(lambda: os.execv("/bin/true", ["true"]))
subprocess.run(["true"])
for worker in range(4): os.wait()'
grep -q '2 forked children had the weights outside' "$ERR" || fail "children are not told: $(cat "$ERR")"
! grep -q 'everything fitted' "$ERR" || fail "everything fitted? $(cat "$ERR")"
jq -e '.findings[0].cause == "forked_children" and .findings[0].process_id == .processes[0].process_id
  and (.processes[0].advice | contains("weightpager serve"))
  and (.findings[0].finding | contains("touched about 9"))' "$REPORT" >/dev/null ||
  fail "$(jq -c '.findings, .processes[0].advice' "$REPORT")"

# One that is killed cannot say what it touched.
workers '
child(lambda: os.kill(os.getpid(), 9))
os.wait()'
grep -q '1 forked child had the weights outside' "$ERR" || fail "$(cat "$ERR")"

# Nothing was touched, so nothing can have fitted.
workers 'pass'
! grep -q 'everything fitted' "$ERR" || fail "everything fitted? $(cat "$ERR")"
grep -q 'no touch of the model was seen' "$ERR" || fail "$(cat "$ERR")"

# Programs that it starts are no workers.
workers '
work()
subprocess.run(["true"])
os.system("true")'
jq -e '.findings == []' "$REPORT" >/dev/null || fail "$(jq -c .findings "$REPORT")"
