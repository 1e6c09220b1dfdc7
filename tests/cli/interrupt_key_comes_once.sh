#!/usr/bin/env bash
# ^C at a terminal goes to the engine from the kernel: weightpager must not send a second one.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_interposer

have script || skip "script(1) is not installed: apt-get install bsdutils"

# The engine asks for ^C when it is ready for it, and counts for half a second more.
cat >"$SCRATCH/engine" <<'ENGINE'
#!/usr/bin/env bash
count=0
trap 'count=$((count + 1))' INT
touch "$1/ready"
until ((count > 0)); do sleep 0.05; done
sleep 0.5
echo "$count" >"$1/count"
ENGINE
chmod +x "$SCRATCH/engine"

await() { until [[ -e $SCRATCH/$1 || -e $SCRATCH/over ]]; do sleep 0.05; done; }
press_interrupt() {
  await ready
  printf '\003'
  await over
}
press_interrupt | {
  script -qec "'$WEIGHTPAGER' run --window 64MiB -- '$SCRATCH/engine' '$SCRATCH'" /dev/null >"$OUT" 2>&1 ||
    cat "$OUT" >&2
  touch "$SCRATCH/over"
}
[[ -e $SCRATCH/count ]] || fail "the engine got no SIGINT"
[[ $(cat "$SCRATCH/count") == 1 ]] || fail "the engine got SIGINT $(cat "$SCRATCH/count") times"
