#!/usr/bin/env python3
"""Selections of primitives against the greedy baseline and against real runs: docs/explanation/benchmarks.md.

Plans each network (`weightpager plan primitives --measure`) and prints, for the selections that are shown along its
front, how much longer the greedy selection takes in the same memory, and what running them takes of what was planned:
at the pace of the plan, told by the chosen selection, which runs in turns with each, and on the clock.
Networks take turns, some times; the worst greedy selection and the median of what is measured count. The first run on a
machine measures every way to compute every convolution: a minute or two for each network, on a quiet machine.

    bench/primitives.py --nets DIR       writes bench/results/DATE-primitives.json and prints Markdown

DIR gets the networks that are not there yet (`weightpager model make`).
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine
from several_networks import MIB, ROOT, WEIGHTPAGER, make_network

NETWORKS = "googlenet,alexnet,vgg16,resnet18,resnet50,squeezenet"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=pathlib.Path, required=True, help="folder of the networks")
    parser.add_argument("--networks", default=NETWORKS, help="default %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="of each network, in turns (default %(default)s)")
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def planned(cfg):
    """What `plan primitives` finds and measures."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        words = ["plan", "primitives", cfg, "--measure", "--json", report]
        if subprocess.run([WEIGHTPAGER, *words], stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"weightpager {' '.join(map(str, words))} failed")
        return json.loads(report.read_text())


def slower_of_greedy(plan):
    """The most, and in how much memory; None where greedy finds nothing at all."""
    found = [(it["greedy_time_ns"] / it["time_ns"], it["memory_bytes"]) for it in plan["points"] if it["greedy_time_ns"]]
    return max(found, default=(None, None))


def medians_by_planned(plans, what):
    """Each repeat's front is its own, as times are; shares along them are compared by their order."""
    ratios = [[it[what] / it["time_ns"] for it in plan["points"]] for plan in plans]
    shown = min(map(len, ratios))
    return [statistics.median(each[index * (len(each) - 1) // max(1, shown - 1)] for each in ratios)
            for index in range(shown)]


def row_of(name, plans):
    ends = [(plan["points"][0], plan["points"][-1]) for plan in plans]
    slower, memory = max((slower_of_greedy(plan) for plan in plans), key=lambda it: it[0] or 0)
    return {"name": name, "candidates": sum(it["candidates"] for it in plans[0]["layers"] if it["candidates"] > 1),
            "front_points": statistics.median(len(plan["front"]) for plan in plans),
            "least_bytes": statistics.median(least["memory_bytes"] for least, _ in ends),
            "most_bytes": statistics.median(most["memory_bytes"] for _, most in ends),
            "slowest_ns": statistics.median(least["time_ns"] for least, _ in ends),
            "fastest_ns": statistics.median(most["time_ns"] for _, most in ends),
            "greedy_slower_most": slower, "greedy_slower_most_bytes": memory,
            "measured_by_planned": medians_by_planned(plans, "measured_time_ns"),
            "took_by_planned": medians_by_planned(plans, "took_ns"),
            "repeats": [{"machine": plan["machine"], "points": plan["points"]} for plan in plans]}


def print_markdown(rows):
    print("| network | candidates | front, points | memory, MiB | time at its ends, ms | greedy, at most | in MiB | "
          "measured by planned | within 10 % | on the clock |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for it in rows:
        measured, took = it["measured_by_planned"], it["took_by_planned"]
        within = sum(abs(ratio - 1) <= 0.1 for ratio in measured)
        greedy = (f"{it['greedy_slower_most']:.2f}× | {it['greedy_slower_most_bytes'] / MIB:.1f}"
                  if it["greedy_slower_most"] else "none |")
        print(f"| {it['name']} | {it['candidates']} | {it['front_points']:.0f} | {it['least_bytes'] / MIB:.1f} to "
              f"{it['most_bytes'] / MIB:.1f} | {it['slowest_ns'] / 1e6:.2f} to {it['fastest_ns'] / 1e6:.2f} | {greedy} | "
              f"{min(measured):.2f} to {max(measured):.2f} | {within} of {len(measured)} | "
              f"{min(took):.2f} to {max(took):.2f} |")


def main():
    options = parse_arguments()
    head = machine.report_head(WEIGHTPAGER, schema_version=1)
    output = options.output or ROOT / f"bench/results/{head['date']}-primitives.json"
    names = options.networks.split(",")
    plans = {name: [] for name in names}
    for _ in range(options.repeats):
        for name in names:
            make_network(name, options.nets)
            plans[name].append(planned(options.nets / f"{name}.cfg"))
    rows = [row_of(name, plans[name]) for name in names]
    output.write_text(json.dumps(head | {"repeats": options.repeats, "networks": rows}, indent=1) + "\n")
    print_markdown(rows)


if __name__ == "__main__":
    main()
