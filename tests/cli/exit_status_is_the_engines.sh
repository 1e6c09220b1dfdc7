#!/usr/bin/env bash
# What the engine ends with, weightpager ends with.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

for status in 0 1 37 125 255; do
  engine sh -c "exit $status"
  expect_status "$status"
done
