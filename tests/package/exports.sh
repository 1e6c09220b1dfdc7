#!/usr/bin/env bash
# What leaves the libraries is decided, not accidental: the dynamic symbols that each defines are those of
# a list kept beside this file, and libweightpager has the SONAME that its users link against. A symbol
# more is a promise that nobody made; a symbol less breaks somebody's program.
set -euo pipefail
# shellcheck source=tests/package/lib/package.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/package.sh"

symbols_of() { nm -D --defined-only "$1" | awk '{ print $NF }' | LC_ALL=C sort -u; }

# Where a sanitizer's runtime answers the allocator's calls and dlopen, the interposer does not.
ALLOCATOR='dlopen|malloc|calloc|realloc|reallocarray|free|malloc_usable_size|posix_memalign|aligned_alloc|memalign|p?valloc'
listed() {
  if grep -qs '^WP_SANITIZE:[A-Z]*=.' "$BUILD/CMakeCache.txt"; then
    grep -vxE "#.*|$ALLOCATOR" "$1"
  else
    grep -v '^#' "$1"
  fi
}

# expect_symbols LIBRARY LIST
expect_symbols() {
  local library=$1 list=$HERE/$2
  [[ -e $library ]] || fail "$library was not built"
  symbols_of "$library" >"$SCRATCH/found"
  diff -u --label "$2" --label "$(basename -- "$library")" <(listed "$list") "$SCRATCH/found" ||
    fail "$(basename -- "$library") exports something else. If that is meant, edit tests/package/$2"
  note "$(basename -- "$library"): $(wc -l <"$SCRATCH/found") symbols, as listed"
}

expect_soname() {
  local soname
  soname=$(readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
  [[ $soname == "$2" ]] || fail "$1 has the SONAME '$soname', not '$2'"
}

main() {
  local library=$BUILD/pager/libweightpager.so.0 preload=$BUILD/pager/libweightpager_preload.so
  expect_symbols "$preload" libweightpager_preload.symbols
  expect_symbols "$BUILD/pager/libweightpager-control.so" libweightpager-control.symbols
  [[ -e $library ]] || skip "this build has no libweightpager.so.0; the interposer's symbols are as listed"
  expect_soname "$library" libweightpager.so.0
  expect_symbols "$library" libweightpager.symbols
}

main
