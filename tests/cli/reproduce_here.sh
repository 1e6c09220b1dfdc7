#!/usr/bin/env bash
# Demand Layering's figures that are measured on this machine: what they have in them, and what must hold whatever the
# machine is busy with.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"
require_programs python3

# Beside the build: /tmp may be a filesystem without direct reads.
out=$(mktemp -d "${WEIGHTPAGER_BUILD:-$WP_BUILD}/reproduce_here.XXXXXX")
trap 'rm -rf -- "$SCRATCH" "$out"' EXIT
# A killed run has left a network behind; another run is at work with its own.
mkdir "$out/weightpager-network-killed" "$out/weightpager-network-at-work"
touch "$out/weightpager-network-killed/yolov4.weights"
touch -d '1 hour ago' "$out"/weightpager-network-*
exec {at_work}<"$out/weightpager-network-at-work"
flock "$at_work"
weightpager reproduce demand-layering figure-5-here figure-6-here figure-7-here figure-13-here table-2-here figure-16-here --quick \
  --threads 1 -o "$out"
expect_status 0
[[ $(basename -a "$out"/weightpager-network-*) == weightpager-network-at-work ]] ||
  fail "a network was left behind, or one that is in use was removed: $(ls "$out")"
! grep -q 'on no disk' "$OUT" || skip "no direct reads beside the build"

python3 - "$out" <<'END_OF_CHECKS' || fail "what was measured makes no sense: $(cat "$out"/*.csv)"
import glob, json, os, re, sys, xml.etree.ElementTree
folder = sys.argv[1]
load = lambda name: json.load(open(f"{folder}/{name}.json"))
rows = lambda table: [dict(zip(table["columns"], row)) for row in table["rows"]]
spread = ["least", "first quartile", "median", "third quartile", "99 %", "most"]

# Every table says that it is this machine's, and every picture is one.
names = [os.path.basename(path)[:-5] for path in glob.glob(f"{folder}/*.json")]
assert len(names) == 6, names
for name in names:
    for table in load(name)["tables"]:
        assert table["title"].startswith("This machine: "), table["title"]
        assert len({len(row) for row in table["rows"]} | {len(table["columns"])}) == 1, table
pictures = {os.path.basename(path)[:-4] for path in glob.glob(f"{folder}/*.svg")}
for path in glob.glob(f"{folder}/*.svg"): xml.etree.ElementTree.parse(path)
assert pictures == {"figure-5-here", "figure-5-here-by-layer", "figure-8-here-read", "figure-8-here-copy",
                    "figure-8-here-kernel", "figure-6-here", "figure-14-here", "figure-15-here", "figure-7-here",
                    "figure-12-here", "figure-13-here"}, pictures

# Times of layers: all 48 layers are in some class, quartiles ascend, what is read takes time.
by_size, selected = load("figure-5-here")["tables"]
assert sum(int(row["layers"]) for row in rows(by_size) if row["operation"] == "kernel") == 48, by_size["rows"]
for row in rows(by_size) + rows(selected):
    values = [float(row[column]) for column in spread]
    assert values == sorted(values) and (values[-1] > 0 or row["operation"] == "copy"), row
assert {row["operation"] for row in rows(by_size) if row["weights, MiB"] == "none"} == {"kernel"}
assert len(rows(selected)) == 9 and "2.0 MiB" in rows(selected)[-1]["layer"], selected["rows"]

# Windows: no pipeline takes more than all weights, tiles take less than the smallest whole layer, Async takes no more
# than Seq, and 2S half of it.
table = load("table-2-here")["tables"][0]
windows = {row["pipeline"]: float(row["window, MiB"]) for row in rows(table)}
assert list(windows)[:7] == ["Pre", "Seq", "Sync", "Async", "2S", "Async-MD", "2S-MD"], windows
assert {"2S tiles", "2S overlay", "Pre + reads"} <= set(windows), windows
assert windows["Async"] <= windows["Seq"] <= windows["Sync"] <= windows["Pre"] + 0.1, windows
assert abs(2 * windows["2S"] - windows["Async"]) <= 0.05, windows
assert windows["2S tiles"] < windows["2S"] <= windows["2S-MD"] + 0.1 and windows["Async"] <= windows["Async-MD"] + 0.1
for row in rows(table):
    least, most = map(float, row["least to most, ms"].split(" to "))
    assert 0 < least <= float(row["delay, ms"]) <= most, row
    once, twice = float(row["memory against weights once, %"]), float(row["memory against weights twice, %"])
    assert abs((100 + once) - 2 * (100 + twice)) <= 0.3, row
# The exact search never needs more than the sweep for the same delay; no delay is below all kernels.
searches, measured = load("figure-13-here")["tables"]
assert [row["pipeline"] for row in rows(searches)] == ["Async-MD", "2S-MD"]
for row in rows(searches):
    assert float(row["ours, the same delay"]) <= float(row["the paper's sweep"]), row
    assert float(row["least delay, ms"]) >= float(row["all kernels, ms"]) - 0.1, row
# Delays by equation never grow with the window, and were measured in windows of the sizes that were asked for.
assert [row["pipeline"] for row in rows(measured)] == ["Pre"] + ["Async"] * 2 + ["2S"] * 2
for small, large in zip(rows(measured)[1::2], rows(measured)[2::2]):
    assert float(small["window, MiB"]) < float(large["window, MiB"]), measured["rows"]
    assert float(small["by equation"]) >= float(large["by equation"]), measured["rows"]

# Two sizes of pictures; the smallest window does not depend on them.
sizes = rows(load("figure-6-here")["tables"][0])
assert [row["input"] for row in sizes] == ["96x96", "224x224"], sizes
assert sizes[0]["2S: MiB"] == sizes[1]["2S: MiB"], sizes

# Ways to read: each is there or said to be lacking; direct reads leave nothing in the page cache.
ways = load("figure-7-here")
found = {row["way"]: row for row in rows(ways["tables"][0])}
lacking = {lack.split(": ")[0] for lack in ways["lacks"]}
for way in ("page cache, warm", "page cache, cold", "direct, pageable", "direct, locked", "direct, huge pages",
            "direct, registered"):
    assert (way in found) != (way in lacking), (way, lacking)
for way, row in found.items():
    assert all(float(cell) > 0 for column, cell in row.items() if re.fullmatch(r"\d+ [KM]iB", column)), row
    cached = float(row["then in the page cache, MiB"])
    assert cached < 1 if way.startswith("direct") else cached > 4, row

# Energy: a counter, or the file that is not there.
energy = load("figure-16-here")
assert energy["tables"] or any("energy_uj" in lack for lack in energy["lacks"]), energy
END_OF_CHECKS

# Without a disk nothing is measured, and the rest is made all the same.
if [[ $(stat -f -c %T /dev/shm) == tmpfs ]]; then
  memory=$(mktemp -d /dev/shm/weightpager-XXXXXX)
  trap 'rm -rf -- "$SCRATCH" "$out" "$memory"' EXIT
  TMPDIR=$memory weightpager reproduce demand-layering table-1 figure-5-here --quick -o "$memory/out"
  expect_status 0
  grep -q 'not here: measured times: .* is on no disk' "$OUT" || fail "$(cat "$OUT")"
  [[ -s $memory/out/table-1.json ]] || fail "table 1 needs no disk"
  TMPDIR=$out weightpager reproduce demand-layering figure-7-here --quick -o "$memory/out"
  expect_status 0
  jq -e '.tables | length == 1' "$memory/out/figure-7-here.json" >/dev/null || fail "TMPDIR was not used: $(cat "$OUT")"
fi

weightpager reproduce demand-layering figure-5-here --net squeezenat -o "$SCRATCH/none"
expect_status 2
expect_error 'squeezenat'
weightpager reproduce demand-layering figure-5-here --device gpu -o "$SCRATCH/none"
expect_status 2
[[ ! -e $SCRATCH/none ]] || fail "a refused call made a folder"
