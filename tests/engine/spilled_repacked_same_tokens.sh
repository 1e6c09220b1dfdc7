#!/usr/bin/env bash
# Released llama.cpp with its default kernels, which copy q4_0 weights into another layout: with --spill the copy is
# paged, and the greedy tokens are those of its own default run without weightpager.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"
# shellcheck source=tests/engine/lib/spilled.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/spilled.sh"

main() {
  local model size
  require_engine
  require_spilling
  model=$(make_model 512MiB q4_0) || fail "no model could be made"
  size=$(stat -Lc %s "$model")
  engine_on "$model" --tokens 4
  "${ENGINE[@]}" | jq -e --argjson size "$size" '.rss_anon_bytes > $size / 2' >/dev/null ||
    skip "llama.cpp does not copy q4_0 weights on this CPU"
  # Not all of the model is copied.
  check_spilled $((size * 9 / 10)) 25 50
}

main
