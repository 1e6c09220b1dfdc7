#!/usr/bin/env bash
# PyTorch computes the same bytes from torch.load(mmap=True) with and without weightpager, and its checkpoint has
# each storage where `weightpager model show` says.
set -euo pipefail
# shellcheck source=tests/engine/lib/digests.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/digests.sh"

main() {
  local model
  require_python
  model=$(torch_checkpoint) || fail "no model could be made"
  "$PYTHON" "$WP_ROOT/tests/engine/lib/torch_storages.py" "$WEIGHTPAGER" "$model"
  expect_digest "$model" "$PYTHON" "$ENGINES/torch_load_mmap.py" --model "$model"
  check_windows 12 25 50 110
}

main
