#!/usr/bin/env bash
# Mixtures of small experts are paged in chunks that are smaller than huge pages.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"

# The last one's report is looked at; an attached engine has no chunks of its own.
ARMS=(attached "${MAPPERS[@]}")

expect_chunks() {
  jq -e --argjson bytes "$1" '.processes[0].chunk_bytes == $bytes' "$REPORT" >/dev/null ||
    wrong "chunks of $(jq '.processes[0].chunk_bytes' "$REPORT") bytes, not of $1"
}

make_model
trial 0 plain
[[ ! -e $REPORT ]] || expect_chunks $((2 << 20))

# The slabs of an expert have 0.5 MiB.
"$WEIGHTPAGER" model make --arch llama-moe --experts 8 --size 48MiB --type f16 -f -o "$MODEL" >/dev/null
trial 0 plain
trial 0 fork
trial 0 unmap
[[ ! -e $REPORT ]] || expect_chunks $((64 << 10))
finish
