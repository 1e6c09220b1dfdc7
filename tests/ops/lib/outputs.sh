# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# What the comparisons with other programs share: a scratch directory, a picture, a network's .cfg for
# small pictures. Source it.
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../../tools/scripts/lib/common.sh"

OPS_LIB=$WP_ROOT/tests/ops/lib
PROGRAMS=${WEIGHTPAGER_BUILD:-$WP_BUILD}/tests
SCRATCH=$(mktemp -d)
trap 'rm -rf -- "$SCRATCH"' EXIT

require_programs() {
  local program
  for program in compare_outputs make_weights; do
    [[ -x $PROGRAMS/$program ]] || fail "$PROGRAMS/$program is missing: build it (cmake --build --preset release)"
  done
}

# make_picture FILE WIDTH HEIGHT: colours that change slowly and quickly, in a PPM, which every program
# decodes to the same values.
make_picture() {
  python3 - "$@" <<'PYTHON'
import math, sys
path, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def colour(x, y):
    return (int(127 + 120 * math.sin(x / 9 + y / 31)), (x * y * 7) % 256, int(127 + 120 * math.cos((x - y) / 17)))
with open(path, "wb") as file:
    file.write(b"P6 %d %d 255\n" % (width, height))
    file.write(bytes(value for y in range(height) for x in range(width) for value in colour(x, y)))
PYTHON
}

# with_input_side SIDE <CFG: the same network for pictures of SIDE x SIDE.
with_input_side() { sed -E "s/^ *(width|height) *=.*/\1=$1/"; }
