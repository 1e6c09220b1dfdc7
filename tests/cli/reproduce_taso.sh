#!/usr/bin/env bash
# `weightpager reproduce taso`: what must hold on every machine, whatever its times are.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_programs python3

# Nothing of this user's is measured again, or kept.
export XDG_CACHE_HOME=$SCRATCH/cache
weightpager reproduce taso figure-1 figure-2 figure-8 figure-10 --quick -o "$SCRATCH/taso"
expect_status 0
# A second run takes its times from the cache: the same again.
weightpager reproduce taso figure-10 --quick -o "$SCRATCH/again"
expect_status 0
diff "$SCRATCH/taso/figure-10.csv" "$SCRATCH/again/figure-10.csv" || fail "the second run is another one"

python3 - "$SCRATCH/taso" <<'END' || fail "see above"
import csv, glob, json, os, sys, xml.etree.ElementTree
os.chdir(sys.argv[1])
def tables(name): return json.load(open(name + ".json"))["tables"]
def number(cell): return float(cell.rstrip("×"))
def expect(holds, *words):
    if not holds: sys.exit(" ".join(map(str, words)))

# Figure 1: nothing is faster than the exact planner without a budget, which is as fast as PBQP; and nothing takes less
# memory than its least. (Values are rounded to four digits after the point.)
rows = {row[0]: row for row in tables("figure-1")[0]["rows"]}
exact, least = number(rows["exact, least time"][2]), number(rows["exact, least memory"][1])
expect(abs(exact - number(rows["PBQP"][2])) <= 1e-4, "PBQP", rows)
expect({"direct", "im2row", "im2col", "kn2row"} <= rows.keys(), "primitives", rows.keys())
for row in rows.values():
    expect(exact <= number(row[2]) and least <= number(row[1]), "better than exact:", row)
# Each convolution is computed by the primitive or by a fall-back; unfolding can compute all of them.
one = [row for row in rows.values() if row[5] != "-"]
expect({int(row[5]) + int(row[6]) for row in one} == {57}, "convolutions", one)
expect(rows["im2col"][6] == rows["im2row"][6] == "0" != rows["kn2row"][6], "fall-backs", one)

# Figure 2 is from shapes alone. VGG's largest layers: two pictures of 64 channels of 224 × 224, and nine of one of
# them unfolded; to the byte.
vgg = next(row for row in tables("figure-2")[0]["rows"] if row[0] == "VGG-D")
picture, weights = 64 * 224 * 224 * 4 / 2**20, 64 * 64 * 9 * 4 / 2**20
expect(vgg[1] == f"{2 * picture + weights:.2f}" and vgg[2] == f"{11 * picture + weights:.2f}", "VGG", vgg)

# Figure 8: along a front memory rises and time falls; greedy is never better.
fronts = tables("figure-8")
expect(len(fronts) == 2, "fronts", len(fronts))
for front in fronts:
    points = [(number(row[0]), number(row[1])) for row in front["rows"]]
    expect(points == sorted(points) and [t for _, t in points] == sorted((t for _, t in points), reverse=True), points)
    expect(all(row[2] == "none" or number(row[2]) >= number(row[1]) for row in front["rows"]), "greedy", front["rows"])

# Figure 10: budgets fall, times rise, and greedy is never better; the kinds that the paper names are some of all.
every, paper_kinds = tables("figure-10")
for table in (every, paper_kinds):
    budgets, times = [[number(row[i]) for row in table["rows"]] for i in (0, 1)]
    expect(budgets == sorted(budgets, reverse=True) and times == sorted(times) and len(times) == 16, table["rows"])
    expect(all(row[3] == "-" or number(row[3]) >= 1 for row in table["rows"]), "greedy", table["rows"])
    expect(table["rows"][0][3] == "1.000×", "with enough memory greedy is PBQP", table["rows"])
expect(number(every["rows"][0][1]) <= number(paper_kinds["rows"][0][1]), "fewer primitives are faster")

pictures = glob.glob("*.svg")
for path in pictures: xml.etree.ElementTree.parse(path)
expect(sorted(pictures) == ["figure-1.svg", "figure-10.svg", "figure-2.svg", "figure-8a.svg", "figure-8b.svg"], pictures)
for path in glob.glob("*.csv"): expect(len({len(row) for row in csv.reader(open(path, newline=""))}) == 1, path)
END
