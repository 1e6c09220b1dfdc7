#!/usr/bin/env bash
# An engine that locks itself down when it has loaded, for all its threads, and so for the pager's: where
# another call does it is served on, and where none does it ends, with a line that names the call. Never
# does it wait for ever, nor get other bytes.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

declare -A CALLS=([read]=0 [poll]=7 [mmap]=9 [ioctl]=16 [pread64]=17 [madvise]=28 [fallocate]=285 [ppoll]=271
  [io_uring_enter]=426)
for name in "${!CALLS[@]}"; do
  alone "$ENGINE" locked-down "$MODEL" "${CALLS[$name]}"
  [[ $STATUS == 0 ]] || wrong "$name is refused, by the kernel: status $STATUS"
  for arm in "${ARMS[@]}"; do
    served "$arm" "$ENGINE" locked-down "$MODEL" "${CALLS[$name]}"
    skip_for_lack "$ERR"
    if [[ $STATUS == 0 ]]; then
      note "$name is refused, mapper $arm: as with mmap"
    elif [[ $STATUS == 134 ]] && grep -q "is refused to weightpager's threads" "$ERR"; then
      note "$name is refused, mapper $arm: the process ends, and says why"
    else
      wrong "$name is refused, mapper $arm: status $STATUS"
    fi
  done
done

# What has another way is served: always where the filter is there from the beginning.
BEFORE=("$LAUNCHER" --no-io-uring-enter --)
trial 0 plain
served auto "$ENGINE" plain "$MODEL"
jq -e '.processes[0].reader == "pread"' "$REPORT" >/dev/null || wrong "reader: $(cat "$REPORT")"
finish
