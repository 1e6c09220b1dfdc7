#!/usr/bin/env bash
# An engine that was built with AddressSanitizer, whose runtime ends a process in which other libraries
# come before it, or have symbols of their own first.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
ENGINE=$WEIGHTPAGER_BUILD/tests/trials_sanitized_engine
[[ -x $ENGINE ]] || skip "this compiler has no AddressSanitizer, or all is built with one"
make_model

trial 0 plain
trial 0 fork
trial 0 system-calls "$SCRATCH/copy"

# What it is there for it still does.
trial 1 send-too-much
grep -q 'heap-buffer-overflow' "$ERR" || wrong "nothing was found"

# As a user starts it who does not start it directly, and as one who preloads the runtime for a program
# without it; and the control socket's library is loaded there, too.
served auto sh -c '"$@"' sh "$ENGINE" plain "$MODEL"
[[ $STATUS == 0 ]] || wrong "started by a shell: status $STATUS"
! grep -q 'no control socket' "$ERR" || wrong "started by a shell: no control socket"
RUNTIME=$(ldd "$ENGINE" | awk '/libasan|libclang_rt/ { print $3 }')
for order in "$RUNTIME:\$LD_PRELOAD" "\$LD_PRELOAD:$RUNTIME"; do
  served auto sh -c "LD_PRELOAD=$order"' exec "$@"' sh "$WEIGHTPAGER_BUILD/tests/trials_engine" plain "$MODEL"
  [[ $STATUS == 0 ]] || wrong "LD_PRELOAD=$order: status $STATUS"
  ! grep -q 'no control socket' "$ERR" || wrong "LD_PRELOAD=$order: no control socket"
  jq -e '.processes | length > 0' "$REPORT" >/dev/null || wrong "LD_PRELOAD=$order: not served"
done
finish
