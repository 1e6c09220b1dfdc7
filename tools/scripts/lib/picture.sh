# shellcheck shell=bash
# A picture that everybody can make, for networks to look at. Source it.

# make_picture FILE: a PPM, not square, with no two rows alike.
make_picture() {
  python3 - "$1" <<'PY'
import sys
width, height = 300, 200
pixels = bytes(value % 256 for y in range(height) for x in range(width) for value in (x, y, x * y // 7))
with open(sys.argv[1], "wb") as file:
    file.write(b"P6\n%d %d\n255\n" % (width, height) + pixels)
PY
}
