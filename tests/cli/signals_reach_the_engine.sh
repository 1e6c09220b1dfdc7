#!/usr/bin/env bash
# Signals that somebody sends to weightpager are meant for the engine. It sends them itself here, to
# its parent.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

for signal in TERM HUP USR1 USR2 WINCH INT QUIT; do
  # bash, because a shell that was started with a signal ignored cannot trap it.
  engine bash -c "trap 'exit 5' $signal; kill -$signal \$PPID; while :; do sleep 0.05; done"
  expect_status 5
done

engine sh -c "kill -INT \$PPID; while :; do sleep 0.05; done"
expect_status 130
