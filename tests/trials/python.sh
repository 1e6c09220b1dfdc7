#!/usr/bin/env bash
# Python with a mapped safetensors file: subprocess, multiprocessing by fork and by spawn, a pool.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
"$WEIGHTPAGER" model make --size 48MiB --format safetensors -o "$SCRATCH/model" >/dev/null
MODEL=$SCRATCH/model/model.safetensors
script=$WP_ROOT/tests/trials/lib/mapped_model.py

for kind in subprocess fork spawn pool; do
  alone python3 "$script" "$kind" "$MODEL"
  [[ $STATUS == 0 ]] || wrong "$kind, by the kernel: status $STATUS"
  for mapper in "${ARMS[@]}"; do
    served "$mapper" python3 "$script" "$kind" "$MODEL"
    skip_for_lack "$ERR"
    if [[ $STATUS == 0 ]] && jq -e '.processes | length > 0' "$REPORT" >/dev/null; then
      note "$kind, mapper $mapper: the file's bytes"
    else
      wrong "$kind, mapper $mapper: status $STATUS"
    fi
  done
done
finish
