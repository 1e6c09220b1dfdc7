#!/usr/bin/env bash
# mremap and mprotect under load, PROT_NONE and back, a hole under threads that wait there, a hundred mappings of one file,
# two models in one window.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model
other=$SCRATCH/other.gguf
write_model "$other" 2

for name in remap protect-none unmap hundred-mappings; do
  trial 0 "$name"
done
trial 0 two-models "$other"
finish
