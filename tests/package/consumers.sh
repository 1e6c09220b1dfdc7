#!/usr/bin/env bash
# Strangers can use an installed weightpager: a project that finds it with CMake, and one that finds it
# with pkg-config, compile, link and run against an installed tree that was moved after installing; so does
# the example in docs/examples. The installed command finds its interposer there.
set -euo pipefail
# shellcheck source=tests/package/lib/package.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/package.sh"

EXPECTED=$(sed -n 's/^project(weightpager VERSION \([0-9.]*\).*/\1/p' "$WP_ROOT/CMakeLists.txt")

# Each consumer maps a file, compares it with what read() gives, and prints the library's version.
expect_version() {
  local found status=0
  found=$(LD_LIBRARY_PATH=$LIBRARY_DIR "$1" "$SCRATCH/mapped") || status=$?
  [[ $status != 77 ]] || skip "this user may not have a pager (reason above)"
  [[ $status == 0 ]] || fail "$(basename -- "$1") ended with $status"
  [[ $found == "$EXPECTED" ]] || fail "$1 printed '$found', not '$EXPECTED'"
  note "$(basename -- "$1"): $found, same bytes"
}

# Chunks are 2 MiB: the file ends within its third, and within a page.
make_file() { head -c $((5 * 1000 * 1000 + 1)) /dev/urandom >"$SCRATCH/mapped"; }

build_by_cmake() {
  cmake -S "$HERE/consumer" -B "$SCRATCH/by_cmake" -DCMAKE_PREFIX_PATH="$INSTALLED" &&
    cmake --build "$SCRATCH/by_cmake"
}

by_cmake() {
  say "by CMake"
  build_by_cmake >"$SCRATCH/log" 2>&1 || fail "the CMake consumer does not build: $(cat "$SCRATCH/log")"
  expect_version "$SCRATCH/by_cmake/consumer_c"
  expect_version "$SCRATCH/by_cmake/consumer_cpp"
}

# compile SOURCE PROGRAM
compile() {
  local flags
  PKG_CONFIG_PATH=$LIBRARY_DIR/pkgconfig
  export PKG_CONFIG_PATH
  read -ra flags <<<"$(pkg-config --cflags --libs weightpager)"
  cc -O2 -std=c11 -Wall -Wextra -Werror -pedantic -o "$2" "$1" "${flags[@]}" ||
    fail "$1 does not build with ${flags[*]}"
}

by_pkg_config() {
  say "by pkg-config"
  compile "$HERE/consumer/consumer.c" "$SCRATCH/by_pkg_config"
  [[ $(pkg-config --modversion weightpager) == "$EXPECTED" ]] || fail "weightpager.pc has another version"
  expect_version "$SCRATCH/by_pkg_config"
}

# Twelve matrices of 500 x 500, of which only the first begins with a page, in a window for four; scaled so
# that products stay of one size.
example() {
  say "the example: a chain of matrices"
  local said
  compile "$WP_ROOT/docs/examples/stream_matrices.c" "$SCRATCH/stream_matrices"
  python3 -c '
import array, random, sys
random.seed(6)
array.array("f", (random.gauss(0, 500 ** -0.5) for _ in range(12 * 500 * 500))).tofile(sys.stdout.buffer)
' >"$SCRATCH/matrices"
  said=$(LD_LIBRARY_PATH=$LIBRARY_DIR "$SCRATCH/stream_matrices" "$SCRATCH/matrices" 500 12 4) ||
    fail "stream_matrices ended with $?: $said"
  [[ $said == "the same; window 4.0 MiB, read 11."* ]] || fail "stream_matrices said: $said"
  note "$said"
  said=$(LD_LIBRARY_PATH=$LIBRARY_DIR "$SCRATCH/stream_matrices" "$SCRATCH/matrices" 500 13 4 2>&1) &&
    fail "stream_matrices found thirteen matrices in a file of twelve"
  [[ $said == *"layer 12 of 1000000 bytes reaches beyond the end of the file"* ]] ||
    fail "stream_matrices said: $said"
}

installed_command() {
  say "the installed command"
  "$INSTALLED/bin/weightpager" run --quiet --window 32MiB -- sh -c 'exit 37' || [[ $? == 37 ]] ||
    fail "bin/weightpager run does not end as its engine does"
  local file
  for file in bash-completion/completions/weightpager zsh/site-functions/_weightpager \
    fish/vendor_completions.d/weightpager.fish; do
    [[ -s $INSTALLED/share/$file ]] || fail "share/$file was not installed"
  done
  ! have scdoc || [[ -s $INSTALLED/share/man/man1/weightpager-run.1 ]] || fail "no man pages were installed"
}

main() {
  require_library
  install_and_move
  make_file
  [[ -x $INSTALLED/bin/weightpager ]] || fail "bin/weightpager was not installed"
  by_cmake
  by_pkg_config
  example
  installed_command
}

main
