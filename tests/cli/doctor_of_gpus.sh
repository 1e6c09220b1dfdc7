#!/usr/bin/env bash
# What a CUDA driver says is shown; the driver of this test has two devices that nobody has.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

! grep -qs '^WP_SANITIZE:[A-Z]*=.' "$WEIGHTPAGER_BUILD/CMakeCache.txt" ||
  skip "the driver has to be built without sanitizers"
UNDER=(env "LD_LIBRARY_PATH=$WEIGHTPAGER_BUILD/tests/fake_cuda")
doctor --json
expect_status 0
devices=$(jq -c '[.rows[] | select(.id == "cuda").facts |
  [.device, .name, .memory_bytes, .has_unified_addressing, .has_pageable_memory_access,
   .can_map_host_memory, .can_use_stream_memory_operations]]' "$OUT")
expected='[[0,"Imaginary 0",1073741824,true,true,true,true],[1,"Imaginary 1",2147483648,false,false,true,false]]'
[[ $devices == "$expected" ]] || fail "devices: $devices"

FAKE_CUDA_ERROR=1 doctor --json
expect_status 0
expect_row cuda warn 'CUDA_ERROR_NO_DEVICE (100)'
