#!/usr/bin/env bash
# Every fuzz target, 20,000 executions each: what the seeds and their neighbours can find in a minute.
# The long run is tools/fuzz.sh.
set -eu
exec "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/fuzz.sh" --executions 20000
