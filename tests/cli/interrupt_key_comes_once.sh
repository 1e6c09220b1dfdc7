#!/usr/bin/env bash
# ^C at a terminal goes to the engine from the kernel: weightpager must not send a second one.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

have script || skip "script(1) is not installed: apt-get install bsdutils"

# The engine asks for ^C when it is ready for it, and counts until its second of patience is over.
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

press_interrupt() {
  until [[ -e $SCRATCH/ready ]]; do sleep 0.05; done
  printf '\003'
  until [[ -e $SCRATCH/count ]]; do sleep 0.05; done
}
press_interrupt |
  script -qec "'$WEIGHTPAGER' run --window 64MiB -- '$SCRATCH/engine' '$SCRATCH'" /dev/null >"$OUT" 2>&1
[[ $(cat "$SCRATCH/count") == 1 ]] || fail "the engine got SIGINT $(cat "$SCRATCH/count") times"
