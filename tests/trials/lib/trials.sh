# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# Runs an engine (tests/trials/engine.cc) first by itself, which shows that the trial expects what the
# kernel does, then under weightpager in each way. The engine compares every byte of its weights
# with the file. Whoever takes longer than the hang limit has failed. Source it.

: "${WEIGHTPAGER_BUILD:=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)/build/release}"
# Beside the build: /tmp may be a filesystem without direct reads.
export TMPDIR=$WEIGHTPAGER_BUILD
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../cli/lib/cli.sh"
require_interposer

ENGINE=$WEIGHTPAGER_BUILD/tests/trials_engine
LAUNCHER=$WEIGHTPAGER_BUILD/tests/trials_launcher
LIBRARY=$WEIGHTPAGER_BUILD/tests/libtrials_library.so
HANG_LIMIT_S=30
# An emulated machine (tools/scripts/kernel_test.sh) takes up to 30 times as long.
[[ ! -v TEST_LIMIT_SECONDS ]] || HANG_LIMIT_S=240
REPORT=$SCRATCH/report.json
MODEL=$SCRATCH/model.gguf
MAPPERS=(move collapse copy)
# How the weights get into place; `attached`: from the window of another process.
ARMS=("${MAPPERS[@]}" attached)
SERVER_NAME=trial-$$
# What stands before `weightpager` (and before the engine that runs by itself).
BEFORE=()
FAILURES=0

# write_model FILE SEED: half as large again as the window.
write_model() { "$WEIGHTPAGER" model make --size 48MiB --type f16 --seed "$2" -f -o "$1" >/dev/null; }
make_model() { write_model "$MODEL" 1; }

within_limit() {
  STATUS=0
  timeout -k 5 "$HANG_LIMIT_S" "$@" >"$OUT" 2>"$ERR" || STATUS=$?
}

alone() { within_limit "${BEFORE[@]}" "$@"; }

# A server of the models among the words of an engine's command line; its process in SERVER.
start_server() {
  local word models=()
  for word in "$@"; do
    if [[ $word == *.@(gguf|safetensors) && -f $word ]]; then models+=("$word"); fi
  done
  : >"$SCRATCH/server" # what the last one said is no sign of this one
  "${BEFORE[@]}" "$WEIGHTPAGER" serve "${models[@]}" --window 32MiB --name "$SERVER_NAME" \
    >/dev/null 2>"$SCRATCH/server" &
  SERVER=$!
  until grep -q 'run --attach' "$SCRATCH/server"; do
    kill -0 "$SERVER" 2>/dev/null || return 1
    sleep 0.02
  done
}

# served MAPPER ENGINE…
served() {
  rm -f -- "$REPORT"
  if [[ $1 != attached ]]; then
    within_limit "${BEFORE[@]}" "$WEIGHTPAGER" run --window 32MiB --mapper "$1" --json "$REPORT" -- "${@:2}"
    return
  fi
  if start_server "${@:2}"; then
    within_limit "${BEFORE[@]}" "$WEIGHTPAGER" run --attach "$SERVER_NAME" --json "$REPORT" -- "${@:2}"
    kill -TERM "$SERVER" || STATUS=99 # it died of something that the engine did
  else
    STATUS=98
    : >"$ERR"
  fi
  wait "$SERVER" || STATUS=97
  # What the pager says it says there.
  cat -- "$SCRATCH/server" >>"$ERR"
}

wrong() {
  note "FAILED: $*"
  sed 's/^/     /' "$ERR"
  FAILURES=$((FAILURES + 1))
}

# Before each run of a trial, for those whose files change.
prepare() { :; }

# trial EXPECTED_STATUS NAME [ARGUMENTS…]: alone, then in each way.
trial() {
  local expected=$1 mapper arguments=("${@:2:1}" "$MODEL" "${@:3}")
  prepare
  alone "$ENGINE" "${arguments[@]}"
  [[ $STATUS == "$expected" || $expected == 137 ]] || wrong "$2, by the kernel: status $STATUS"
  for mapper in "${ARMS[@]}"; do
    prepare
    served "$mapper" "$ENGINE" "${arguments[@]}"
    skip_for_lack "$ERR"
    if [[ $STATUS != "$expected" ]]; then
      wrong "$2, mapper $mapper: status $STATUS, expected $expected"
    elif ! jq -e --arg mapper "$mapper" '.processes[0].mapper == $mapper' "$REPORT" >/dev/null; then
      wrong "$2, mapper $mapper: not served by weightpager"
    else
      note "$2, mapper $mapper: as with mmap"
    fi
  done
}

finish() { ((FAILURES == 0)) || fail "$FAILURES trials failed"; }
