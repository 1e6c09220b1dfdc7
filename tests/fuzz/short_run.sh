#!/usr/bin/env bash
# Every fuzz target, 20,000 executions each: what the seeds and their neighbours can find in a minute.
# The long run is tools/scripts/fuzz.sh.
set -eu
exec "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/fuzz.sh" --executions 20000
