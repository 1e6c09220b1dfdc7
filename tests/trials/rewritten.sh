#!/usr/bin/env bash
# A model that is changed while it is mapped, in nine ways, before, between and during passes: what is
# mapped afterwards is the file as it is then. By itself a selection; with `all`, every way, moment
# and user. With `module` by that mapper alone: tests/kernels/module_rewritten_6_12.sh.
#     tests/trials/rewritten.sh [all] [module]
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
PROGRAM=$WEIGHTPAGER_BUILD/tests/trials_rewritten
RUNS=0
IMPOSSIBLE=0
SIGNALS=0
SWEEP=false
USERS=(kernel "${ARMS[@]}" stream)
for word in "$@"; do
  case $word in
    all) SWEEP=true ;;
    module)
      MAPPERS=(module)
      USERS=(module attached)
      ;;
    *) fail "unknown word '$word': tests/trials/rewritten.sh [all] [module]" ;;
  esac
done

write_model "$SCRATCH/first.gguf" 1
write_model "$SCRATCH/second.gguf" 2
prepare() {
  rm -f -- "$MODEL" "$MODEL.new"
  cp -- "$SCRATCH/first.gguf" "$MODEL"
}

# changed USER CHANGE MOMENT: USER is the kernel, a mapper of `weightpager run`, `attached`, or
# library-MAPPER or stream, of the C library.
changed() {
  local way=mmap failures=$FAILURES
  prepare
  case $1 in
    library-*) way=${1#library-} ;;
    stream) way=stream ;;
  esac
  local command=("$PROGRAM" "$way" "$2" "$3" "$MODEL" "$SCRATCH/second.gguf")
  if [[ $1 == kernel || $way != mmap ]]; then alone "${command[@]}"; else served "$1" "${command[@]}"; fi
  RUNS=$((RUNS + 1))
  [[ ${MAPPERS[0]} == module ]] || skip_for_lack "$ERR"
  if [[ $STATUS == 77 ]]; then
    IMPOSSIBLE=$((IMPOSSIBLE + 1))
    note "$2, $3, $1: not on this filesystem"
    return
  elif [[ $STATUS != 0 ]]; then
    wrong "$2, $3, $1: status $STATUS"
  elif [[ $way == mmap && $1 != kernel ]] &&
    ! jq -e --arg mapper "$1" '.processes[0].mapper == $mapper' "$REPORT" >/dev/null; then
    wrong "$2, $3, $1: not served by weightpager"
  elif [[ $1 == attached && ${MAPPERS[0]} == module ]] && ! grep -q 'mapper module' "$ERR"; then
    wrong "$2, $3, $1: the server does not use the module"
  elif grep -q SIGBUS "$OUT"; then
    SIGNALS=$((SIGNALS + 1))
    [[ $1 == kernel ]] || grep -q 'error: .*gets SIGBUS' "$ERR" || wrong "$2, $3, $1: SIGBUS without a line"
  fi
  ((FAILURES > failures)) || note "$2, $3, $1: right, at $SECONDS s"
}

if $SWEEP; then
  for change in cp rename truncate byte store punch reflink touch set-back; do
    for moment in before between during; do
      for user in "${USERS[@]}" "${MAPPERS[@]/#/library-}"; do
        changed "$user" "$change" "$moment"
      done
    done
  done
elif [[ ${MAPPERS[0]} == module ]]; then # emulated, where each takes seconds
  changed module cp between
  changed attached set-back during
  changed library-module store between
else
  for user in "${USERS[@]}"; do
    changed "$user" cp between
    changed "$user" set-back during
  done
  changed move byte between
  changed attached rename between
  changed library-collapse store between
fi
note "$RUNS runs, $IMPOSSIBLE of them not possible here, $SIGNALS with a SIGBUS, $FAILURES wrong; $SECONDS s"
finish
