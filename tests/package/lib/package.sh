# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# What the package tests share: the build tree, a scratch folder, an installed tree.

# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../../tools/scripts/lib/common.sh"

BUILD=${WEIGHTPAGER_BUILD:-$WP_BUILD}
HERE=$WP_ROOT/tests/package
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT
INSTALLED=$SCRATCH/moved

require_library() {
  [[ -e $BUILD/pager/libweightpager.so.0 ]] || skip "this build has no libweightpager.so.0"
}

# Installs to one place and moves it to another: nothing installed may know where it was put.
install_and_move() {
  cmake --install "$BUILD" --prefix "$SCRATCH/first" >"$SCRATCH/install.log" ||
    fail "cmake --install failed: $(cat "$SCRATCH/install.log")"
  mv -- "$SCRATCH/first" "$INSTALLED"
  LIBRARY=$(find "$INSTALLED" -name libweightpager.so.0)
  [[ -n $LIBRARY ]] || fail "libweightpager.so.0 was not installed: $(cat "$SCRATCH/install.log")"
  LIBRARY_DIR=$(dirname -- "$LIBRARY")
}
