#!/usr/bin/env bash
# What weightpager is for, shown in a few minutes: released llama.cpp on a synthetic 2 GiB Llama, once with
# the kernel's mmap and once with a weightpager window of a quarter of the model, both inside the same
# memory limit. Prints tokens, seconds per token and memory side by side.
#
#   tools/demo.sh [--tokens 8] [--window 512MiB]
#
# Everything is made once and kept in $WEIGHTPAGER_CACHE (default ~/.cache/weightpager, 2.3 GiB).
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/scripts/lib/common.sh"
# shellcheck source=tools/scripts/lib/build.sh
source "$WP_ROOT/tools/scripts/lib/build.sh"
# shellcheck source=tools/scripts/lib/engine.sh
source "$WP_ROOT/tools/scripts/lib/engine.sh"

MODEL_SIZE=2GiB
TOKENS=8
WINDOW=512MiB
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT

read_options() {
  while (($#)); do
    case $1 in
      --tokens) TOKENS=${2:-} && shift ;;
      --window) WINDOW=${2:-} && shift ;;
      -h | --help) usage && exit 0 ;;
      *) fail "unknown option '$1': tools/demo.sh [--tokens 8] [--window 512MiB]" ;;
    esac
    shift
  done
  [[ $TOKENS =~ ^([2-9]|[1-9][0-9]+)$ ]] || fail "--tokens takes a whole number from 2 on"
  WINDOW_BYTES=$(bytes_of "$WINDOW")
}

build() {
  say "building (build/release): minutes the first time, seconds later"
  cd "$WP_ROOT"
  build_with_progress "$SCRATCH/build.log" release weightpager weightpager_preload && return
  tail -40 "$SCRATCH/build.log"
  fail "the build failed, see above"
}

require_limits() {
  local reason
  reason=$("$WP_ROOT/tools/scripts/lib/cgroup.sh" --check) ||
    fail "the comparison needs a memory limit. ${reason#SKIPPED: }"
}

# limited NAME COMMAND…: runs the engine inside the limit; its report is NAME.json, the group's NAME.group.
limited() {
  local name=$1
  shift
  drop_page_cache "$MODEL"
  "$WP_ROOT/tools/scripts/lib/cgroup.sh" --limit "$LIMIT" --report "$SCRATCH/$name.group" -- \
    "$@" >"$SCRATCH/$name.json" ||
    fail "the engine ended with $? under $name ($(cat "$SCRATCH/$name.group" 2>/dev/null))"
}

# Both arms compute and read; whatever else runs takes from one of them more than from the other.
warn_if_busy() {
  local load
  load=$(cut -d' ' -f1 /proc/loadavg)
  ((${load%.*} < 1)) || note "this machine is busy (load average $load): the times below will be off"
}

# What the engine needs for itself, and what it does when memory is no matter.
measure_unlimited() {
  say "everything in memory, no limit: $TOKENS tokens"
  with_kernel_mmap "${ENGINE[@]}" >"$SCRATCH/unlimited.json"
  LIMIT=$((WINDOW_BYTES + $(jq .rss_own_bytes "$SCRATCH/unlimited.json") + MEMORY_SLACK))
  note "limit for the two runs: window $WINDOW + engine $(mib_of "$(jq .rss_own_bytes \
    "$SCRATCH/unlimited.json")") + 64 MiB = $(mib_of "$LIMIT")"
}

run_kernel() {
  say "the kernel's mmap inside the limit: $TOKENS tokens"
  limited kernel env LD_PRELOAD="$KEEP_MAPPED" "${ENGINE[@]}"
}

run_weightpager() {
  say "weightpager run --window $WINDOW inside the limit: $TOKENS tokens"
  limited weightpager "$WEIGHTPAGER" run --window "$WINDOW" --json "$SCRATCH/pager.json" -- "${ENGINE[@]}"
}

# row LABEL JQ_FILTER: one line of the table, the filter applied to each run's report.
row() {
  local name cells=()
  for name in kernel weightpager unlimited; do
    cells+=("$(jq -r "$2" "$SCRATCH/$name.json")")
  done
  print_row "$1" "${cells[@]}"
}

print_row() { printf '%-24s %16s %16s %16s\n' "$@"; }

group_peak() { mib_of "$(jq .max_bytes "$SCRATCH/$1.group")"; }

print_table() {
  echo
  print_row '' 'kernel mmap' 'weightpager' 'all in memory'
  print_row 'memory limit' "$(mib_of "$LIMIT")" "$(mib_of "$LIMIT")" 'none'
  print_row 'most memory used' "$(group_peak kernel)" "$(group_peak weightpager)" \
    "$(mib_of "$(jq .rss_max_bytes "$SCRATCH/unlimited.json")")"
  row 'seconds to first token' '.load_s + .first_token_s | . * 1000 | round / 1000'
  row 'seconds per token' '.token_s_median | . * 1000 | round / 1000'
  row 'tokens' '.tokens[:3] | "\(map(tostring) | join(" ")) …"'
  echo
}

# Speed without sameness would be worth nothing, so the tokens come first.
print_verdict() {
  local ratio
  [[ $(jq -c .tokens "$SCRATCH/kernel.json") == "$(jq -c .tokens "$SCRATCH/weightpager.json")" ]] ||
    fail "the tokens differ: $(jq -c .tokens "$SCRATCH/kernel.json" "$SCRATCH/weightpager.json")"
  ratio=$(jq -rs '.[0].token_s_median / .[1].token_s_median | . * 100 | round / 100' \
    "$SCRATCH/kernel.json" "$SCRATCH/weightpager.json")
  echo "Same $TOKENS tokens. Ratio, kernel mmap / weightpager: $ratio in time per token."
  echo "Readahead of the disk: $(readahead_of "$MODEL"). llama.cpp's own copying of weights is off in"
  echo "all three runs: a copy needs the whole model in memory (docs/how-to/use_llama_cpp.md)."
}

# A partition has no queue of its own; its disk's is one folder up.
readahead_of() {
  local device queue
  device=/sys/dev/block/$(stat -c '%Hd:%Ld' "$1")
  for queue in "$device/queue" "$device/../queue"; do
    [[ -e $queue/read_ahead_kb ]] && echo "$(cat "$queue/read_ahead_kb") KiB" && return
  done
  echo unknown
}

main() {
  read_options "$@"
  say "installing what is missing"
  "$WP_ROOT/tools/install.sh"
  build
  find_engine || fail "the llama.cpp engine could not be installed, see above"
  require_limits
  MODEL=$(make_model "$MODEL_SIZE" f16)
  engine_on "$MODEL" --tokens "$TOKENS"
  warn_if_busy
  measure_unlimited
  run_kernel
  run_weightpager
  print_table
  print_verdict
}

main "$@"
