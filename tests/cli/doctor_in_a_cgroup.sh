#!/usr/bin/env bash
# The window is held against the memory cgroup's limit, as in a run.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

limited=$WP_ROOT/tools/scripts/lib/cgroup.sh
"$limited" --check

UNDER=("$limited" --limit $((256 << 20)) --report "$SCRATCH/limit.json" --)
doctor --json --window 128MiB
expect_status 0
expect_row memory_limit ok '256.0 MiB (/sys/fs/cgroup/'
doctor --json --window 512MiB
expect_status 1
expect_row memory_limit fail '--window 204MiB, or echo 671088640 | sudo tee /sys/fs/cgroup/'
