#!/usr/bin/env bash
# `weightpager reproduce taso`: what must hold on every machine, whatever its times are.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_programs python3

# Nothing of this user's is measured again, or kept.
export XDG_CACHE_HOME=$SCRATCH/cache
weightpager reproduce taso figure-1 figure-2 table-1 figure-5 figure-8 figure-10 beyond --quick -o "$SCRATCH/taso"
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
    # (Points that differ by less than the last digit look like one.)
    memory, times = [[number(row[i]) for row in front["rows"]] for i in (0, 1)]
    expect(memory == sorted(memory) and times == sorted(times, reverse=True), front["rows"])
    expect(all(row[2] == "none" or number(row[2]) >= number(row[1]) for row in front["rows"]), "greedy", front["rows"])

# Figure 10: budgets fall, times rise, and greedy is never better; the kinds that the paper names are some of all.
every, paper_kinds = tables("figure-10")
for table in (every, paper_kinds):
    budgets, times = [[number(row[i]) for row in table["rows"]] for i in (0, 1)]
    expect(budgets == sorted(budgets, reverse=True) and times == sorted(times) and len(times) == 16, table["rows"])
    expect(all(row[3] == "-" or number(row[3]) >= 1 for row in table["rows"]), "greedy", table["rows"])
    expect(table["rows"][0][3] == "1.000×", "with enough memory greedy is PBQP", table["rows"])
expect(number(every["rows"][0][1]) <= number(paper_kinds["rows"][0][1]), "fewer primitives are faster")

# Figure 5 has what Figure 1 has of GoogLeNet; on no network is anything faster or smaller than exact.
speeds, memory, ours = tables("figure-5")
columns = speeds["columns"]
for title, row in ((table["title"], row) for table in (speeds, memory, ours) for row in table["rows"]):
    values = dict(zip(columns[1:], (number(cell) if cell != "-" else None for cell in row[1:])))
    known = [value for value in values.values() if value is not None]
    if title.startswith("Times"): expect(values["exact, least time"] == values["PBQP"] == max(known) >= values["direct"] == 1, row)
    if title.startswith("Memory of all"): expect(values["exact, least memory"] == min(known), row)
googlenet = next(row for row in memory["rows"] if row[0].startswith("GoogLeNet"))
expect(dict(zip(columns, googlenet))["im2col"] == rows["im2col"][1], googlenet, rows["im2col"])

# Table 1: published values as they are in the paper. (That CBC finds the same is tests/plan's.)
solving = {row[0].split(",")[0]: row for row in tables("table-1")[0]["rows"]}
expect(solving["GoogLeNet"][1] == "3990, 23.84" and solving["SqueezeNet"][1] == "1710, 8.835", solving)
expect(all(float(row[3]) > 0 and float(row[4]) > 0 and row[6] not in ("", "failed") for row in solving.values()), solving)

# Beyond: what is run shares memory, so it needs less than the sum over convolutions. In that much memory weightpager's
# selection is planned to be no slower; both have run.
needs, in_same_memory = tables("beyond")
for row in needs["rows"]:
    fastest, greedy, exact, run, best = (number(cell) for cell in row[1:6])
    expect(best <= run < exact <= greedy <= fastest, row)
for row in in_same_memory["rows"]:
    expect(number(row[3]) <= number(row[2]) and number(row[4]) >= 1 and number(row[5]) > 0, row)
expect(len(needs["rows"]) == len(in_same_memory["rows"]) == 2, needs, in_same_memory)

pictures = glob.glob("*.svg")
for path in pictures: xml.etree.ElementTree.parse(path)
names = "beyond figure-1 figure-10 figure-2 figure-5-weightpager figure-5a figure-5b figure-8a figure-8b"
expect(sorted(pictures) == [name + ".svg" for name in names.split()], pictures)
for path in glob.glob("*.csv"): expect(len({len(row) for row in csv.reader(open(path, newline=""))}) == 1, path)
END
