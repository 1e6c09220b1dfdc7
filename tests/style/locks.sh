#!/usr/bin/env bash
# What a mutex guards is touched under it: Clang looks at every file that uses one (pager/base/mutex.h), and finds what
# is wrong in a file that is made for it.
set -eu
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"
have clang++ || skip "clang++ is not installed: tools/install.sh --dev"
cd -- "$WP_ROOT"
made=$(mktemp -d)
trap 'rm -rf -- "$made"' EXIT

CLANG=(clang++ -std=c++20 -fsyntax-only -Wthread-safety -Werror -I"$WP_ROOT" -Ipager/include -DFMT_HEADER_ONLY -DWP_VERSION='""')
CUDA=${CUDA_HOME:-/usr/local/cuda}/include

# Sources that include the header, or a header that does.
users_of_mutexes() {
  local headers
  headers=$(grep -rlF '"pager/base/mutex.h"' pager runtime tools --include='*.h' | sed 's/.*/"&"/')
  grep -rlF -e '"pager/base/mutex.h"' -f <(echo "$headers") pager runtime tools --include='*.cc' |
    if [[ -e $CUDA/cuda_runtime_api.h ]]; then cat; else grep -v /cuda/; fi
}

cat >"$made/unguarded.cc" <<'END'
#include "pager/base/mutex.h"
struct Account {
  void put(int money) { money_ += money; }
  weightpager::Mutex mutex_;
  int money_ WP_GUARDED_BY(mutex_) = 0;
};
END
found=$("${CLANG[@]}" "$made/unguarded.cc" 2>&1) && fail "Clang takes data without its mutex"
grep -q "writing variable 'money_' requires holding mutex 'mutex_'" <<<"$found" || fail "Clang says something else: $found"

mapfile -t sources < <(users_of_mutexes)
((${#sources[@]} > 10)) || fail "only ${#sources[@]} files use mutexes: ${sources[*]}"
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" "${CLANG[@]}" -isystem "$CUDA" ||
  fail "these touch what a mutex guards without it: lock it, or say who has (WP_REQUIRES)"
