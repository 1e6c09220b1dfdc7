#!/usr/bin/env bash
# Greedy tokens of released llama.cpp on a f16 model are the same with and without weightpager, at windows
# from an eighth of the model to more than all of it.
set -euo pipefail
# shellcheck source=tests/engine/lib/tokens.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/tokens.sh"

compare_tokens 512MiB f16 12 25 50 110
