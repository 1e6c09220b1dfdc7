#!/usr/bin/env bash
# Limits of the process: address space and descriptors. Where the pager does not fit in any more, the
# engine gets no model, and one line says why.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model
# What ctest leaves open would count.
for descriptor in {3..9}; do
  eval "exec $descriptor>&-"
done

# limited LIMIT VALUE: alone and served under ulimit; prints how it went.
limited() {
  BEFORE=(bash -c "ulimit $1 $2 && exec \"\$@\"" limited)
  alone "$ENGINE" plain "$MODEL"
  local expected=$STATUS mapper
  for mapper in "${MAPPERS[@]}"; do
    served "$mapper" "$ENGINE" plain "$MODEL"
    if jq -e '.processes | any(.models > 0)' "$REPORT" >/dev/null 2>&1; then
      [[ $STATUS == "$expected" ]] || wrong "ulimit $1 $2, mapper $mapper: status $STATUS, by the kernel $expected"
      note "ulimit $1 $2, mapper $mapper: served"
    elif [[ $STATUS == 0 ]]; then
      wrong "ulimit $1 $2, mapper $mapper: not served, and the engine had its model"
    elif grep -q 'weightpager: error: ' "$ERR"; then
      note "ulimit $1 $2, mapper $mapper: $(grep -m 1 'error: ' "$ERR")"
    else
      wrong "ulimit $1 $2, mapper $mapper: neither served nor a line that says why"
    fi
  done
}

for kib in 4000000 400000 200000; do
  limited -v "$kib"
done
for descriptors in 20 10 6; do
  limited -n "$descriptors"
done
finish
