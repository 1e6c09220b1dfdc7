#!/usr/bin/env bash
# `weightpager reproduce swapnet`: the paper's budgets, sizes and memory come out of the equations, the best blocks are
# never worse than the paper's cuts, and the same comes out of every run.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_programs python3

weightpager reproduce swapnet --quick -o "$SCRATCH/paper"
expect_status 0
# What is calculated is the same in every run.
mapfile -t calculated < <("$WEIGHTPAGER" reproduce swapnet --list | grep '^  ' | grep -v 'this machine' | awk '{ print $1 }')
[[ ${#calculated[@]} -gt 10 ]] || fail "few figures are calculated: ${calculated[*]}"
weightpager reproduce swapnet "${calculated[@]}" --quick -o "$SCRATCH/again"
expect_status 0
for file in "$SCRATCH"/again/*.{csv,json,svg}; do
  cmp "$file" "$SCRATCH/paper/$(basename "$file")" || fail "two runs differ in $file"
done
cd "$SCRATCH/paper"

python3 - <<'END' || fail "not the paper's, or a file is not whole"
import csv, glob, json, sys, xml.etree.ElementTree
wrong = []
def tables(name): return json.load(open(f"{name}.json"))["tables"]
def expect(holds, *what):
    if not holds: wrong.append(what)
def numbers(cell, separator): return [float(part) for part in cell.split(separator)]

# Tables of the applications: budgets, memory, how much less memory, latency.
published = {"figure-11": ["475", "102", "142", "124"], "figure-12": ["520", "119", "119", "165", "165"], "figure-13": ["136", "189"]}
for name, budgets_mb in published.items():
    budgets, memory, less, latency = tables(name)
    expect([row[2] for row in budgets["rows"]] == budgets_mb, name, "budgets as published")
    for row in budgets["rows"]:
        sizes = numbers(row[1], " / ")
        expect(abs(sizes[0] - sizes[1]) < 1, name, "size", row)
        expect(row[2] == row[3], name, "budget by size", row)
        expect(float(row[5]) <= float(row[4]) < sizes[1], name, "budget by Equation (1)", row)
    for row in memory["rows"]:
        whole, pruned, by_channel, budget, by_table, best = map(float, row[1:])
        expect(by_table <= budget and best <= budget < by_channel < whole and pruned < whole, name, row)
    for row in latency["rows"]:
        by_table, best = numbers(row[5], " / "), numbers(row[7], " / ")
        expect(best[1] <= by_table[1] and by_table[0] <= by_table[1], name, "best is slower", row)
        expect(float(row[3]) < float(row[1]) and 0 < float(row[2]) < 1, name, "pruned", row)
# The ends of the ranges that are VGG-19's, whose cuts are forced: within a point.
for row, (low, _) in zip(tables("figure-11")[2]["rows"], [(56.9, 0), (35.7, 0), (42.0, 0)]):
    ours = numbers(row[2], "-")
    expect(row[1].startswith(f"{low:.1f}-") and abs(ours[0] - low) < 1, "less memory", row)

for row in tables("figure-14")[0]["rows"]:
    expect(len(set(row[2].split(" / "))) == 1, "number of blocks", row)
expect("4950 rows" in tables("table-3")[1]["note"], "rows of the table")
chosen = {row[0]: float(row[3]) for row in tables("table-3")[1]["rows"]}
expect(chosen["the best blocks"] <= chosen["the best three blocks"] <= chosen["the table"], chosen)

blocks = tables("figure-16")[0]["rows"]
expect([row[0] for row in blocks] == ["3", "4", "5", "6", "7"], "numbers of blocks")
expect(blocks[0][1:3] == ["111", "466"], "published", blocks[0])
for fewer, more in zip(blocks, blocks[1:]):
    expect(float(more[3]) <= float(fewer[3]), "more blocks need more memory", more)
    expect(float(more[6]) <= float(fewer[6]), "more blocks are slower in the same memory", more)
for row in blocks: expect(float(row[6]) <= float(row[4]) and float(row[5]) <= 111, "less memory is faster", row)

# On this machine: within the budget, in the memory that the ways need, and each way of running in turns with memory.
here = tables("figure-11-here")[0]["rows"]
expect(float(here[0][3]) <= float(here[0][1]) and float(here[0][4]) > 0, "blocks within the budget", here)
expect(here[1][2].startswith("least: "), "half the budget is too small for blocks", here)
variants = {row[1]: float(row[4]) for row in tables("figure-15-here")[0]["rows"]}
for copied in ("with a copy of each block", "assembly by copy"):
    expect(abs(variants[copied] - 2 * variants["SwapNet"]) < 0.2, copied, variants)
sizes = [float(row[1]) for row in tables("figure-16-here")[0]["rows"]]
expect(sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0], "more blocks need less memory", sizes)
for row in tables("figure-18-here")[0]["rows"]: expect(float(row[2]) <= float(row[0]), "within the budget", row)
applications = tables("applications-here")[0]["rows"]
for row in applications:
    expect(float(row[3]) <= float(row[2]) and float(row[4]) <= float(row[2]), "no share is larger than the weights", row)
# (Of two that are measured beside other programs, one may get all that it can use.)
for name in {row[0] for row in applications}:
    rows = [[float(cell) for cell in row[2:5]] for row in applications if row[0] == name]
    weights, *shares = (sum(column) for column in zip(*rows))
    expect(all(share < weights for share in shares), "shares are smaller than the weights", name, rows)

plans = {(row[0], row[1], row[2]): row[3:] for row in tables("beyond")[0]["rows"]}
expect(len(plans) == 30, "plans", len(plans))
for (application, size, plan), (mean, _) in plans.items():
    if plan != "SwapNet's shares and cuts" or mean == "-": continue
    for better in ("best blocks, SwapNet's shares", "best blocks, joint shares", "windows, joint shares"):
        expect(float(plans[application, size, better][0]) <= float(mean), "beyond", application, size, better)

pictures, csvs = glob.glob("*.svg"), glob.glob("*.csv")
for path in pictures: xml.etree.ElementTree.parse(path)
for path in csvs: expect(len({len(row) for row in csv.reader(open(path, newline=""))}) == 1, path)
page = open("swapnet.html").read()
expect(len(pictures) == page.count("<svg ") == 25, "pictures", len(pictures))
expect(len(csvs) == page.count("<table>") == 33, "tables", len(csvs))
print(*wrong, sep="\n")
sys.exit(bool(wrong))
END

weightpager reproduce swapnet figure-15 -o "$SCRATCH/one"
expect_status 0
[[ ! -e $SCRATCH/one/figure-16.json ]] || fail "figure 16 was not asked for"
weightpager reproduce swapnet figure-7 -o "$SCRATCH/none"
expect_status 2
expect_error 'there is no figure or table figure-7'
