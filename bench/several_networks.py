#!/usr/bin/env python3
"""Several networks side by side in one budget of memory: docs/explanation/benchmarks.md.

SwapNet's three sets (self-driving, road-side unit, drone), with networks of the same sizes, on `weightpager serve`: with
all weights in memory, in the share of them that the paper's sets have, and in half of that. Networks run one inference
after the other, all at once, so a delay includes what the others do to the processors; what counts is the ratio to the
same set with everything in memory. The speed of a shared machine goes up and down by some percent within minutes, so one
process has all budgets in turns (all, share, all, half, all, ...), and a delay is compared with those right before and
after it. What starts while windows still change, and the first inference in a new window, which fills it, do not count.

That memory is within the budget is the kernel's word: each budget also runs alone inside a memory cgroup. Every set is
written as soon as it is measured.

    bench/several_networks.py --nets DIR       writes bench/results/DATE-several_networks.json and prints Markdown
    bench/several_networks.py --nets DIR --sets drone --seconds 8 --repeats 1     does it work at all

DIR gets the networks that are not there yet (`weightpager model make`, `model pack`).
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIGHTPAGER = ROOT / "build/release/tools/weightpager"
MIB = 1 << 20
# Of the process itself, beside windows, activations and scratch memory, and some air.
PROCESS_BYTES = 112 * MIB

# Networks, and the budget for their weights by all of these, as in the paper: MiB. Its FCN of 207 MiB, whose description
# is not known, is ResNet-152 of 219 here.
SETS = {
    "self-driving": (["yolov3", "resnet152", "vgg19", "resnet101"], 843 / 1161),
    "road-side": (["vgg19", "yolov3", "yolov3", "resnet101", "resnet101"], 1088 / 1360),
    "drone": (["yolov3", "resnet101"], 325 / 406),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=pathlib.Path, required=True, help="folder of the networks")
    parser.add_argument("--sets", default=",".join(SETS), help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=15, help="of each budget (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=6, help="of all budgets, one after the other (default %(default)s)")
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def make_network(name, folder):
    if (folder / f"{name}.packed").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    run = [str(WEIGHTPAGER), "model"]
    subprocess.run([*run, "make", "--net", name, "-o", str(folder)], check=True, stdout=subprocess.DEVNULL)
    paths = [str(folder / f"{name}.{ending}") for ending in ("cfg", "weights", "packed")]
    subprocess.run([*run, "pack", *paths[:2], "-o", paths[2]], check=True, stdout=subprocess.DEVNULL)


def serve(networks, folder, budget_bytes, seconds, *more, inside=()):
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        done = subprocess.run([
            *inside, str(WEIGHTPAGER), "serve", *[str(folder / f"{it}.cfg") for it in networks], "-q",
            "--budget", str(budget_bytes), "--seconds", str(seconds), "--json", str(report), *more])
        if done.returncode:
            sys.exit(f"serve ended with {done.returncode}")
        return json.loads(report.read_text())


def peak_in_cgroup(networks, folder, budget_bytes, limit_bytes, seconds):
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "group.json"
        cgroup = [str(ROOT / "tools/scripts/lib/cgroup.sh"), "--limit", str(limit_bytes), "--report", str(report), "--"]
        run = serve(networks, folder, budget_bytes, seconds, inside=cgroup)
        group = json.loads(report.read_text())
        return {"counted_peak_bytes": run["peak_bytes"], "group_peak_bytes": group["max_bytes"],
                "oom_kills": group["oom_kills"], "limit_bytes": limit_bytes}


def delays_by_phase(network, phases):
    """[phase]: delays of what begins when all windows are there, in a window that is filled, and ends in time."""
    found = [[] for _ in phases]
    window = None
    for it in network["inferences"]:
        is_filled = it["window_bytes"] == window
        window = it["window_bytes"]
        for delays, (begin, end) in zip(found, phases):
            if is_filled and begin <= it["start_ns"] and it["start_ns"] + it["delay_ns"] <= end:
                delays.append(it["delay_ns"])
    return found


def ratios_to_neighbours(delays, arm_phases):
    """Of each of these phases: the median delay by the mean of those in the phases beside it."""
    medians = [statistics.median(it) if it else None for it in delays]
    found = []
    for phase in arm_phases:
        before, here, after = medians[phase - 1:phase + 2]
        if None not in (before, here, after):
            found.append(here / statistics.mean((before, after)))
    return found


def measure(name, options):
    networks, share = SETS[name]
    for it in networks:
        make_network(it, options.nets)
    # Once, to learn what activations and weights take.
    probe = serve(networks, options.nets, 16 << 30, 1)
    fixed = sum(it["fixed_bytes"] for it in probe["networks"])
    weights = sum(it["weights_bytes"] for it in probe["networks"])
    windows = {"paper's share": int(weights * share), "half of that": int(weights * share / 2)}

    arms = [*windows] * options.repeats
    budgets = [fixed + weights]
    for arm in arms:
        budgets += [fixed + windows[arm], fixed + weights]
    changes = ",".join(f"{i * options.seconds}={it}" for i, it in enumerate(budgets) if i > 0)
    run = serve(networks, options.nets, budgets[0], len(budgets) * options.seconds, "--then", changes)

    never = math.inf
    begins = [it["at_ns"] + it.get("followed_ns", never) for it in run["changes"]]
    ends = [it["at_ns"] for it in run["changes"][1:]] + [len(budgets) * options.seconds * 10**9]
    delays = [delays_by_phase(it, list(zip(begins, ends))) for it in run["networks"]]
    found = {"name": name, "networks": networks, "weights_bytes": weights, "fixed_bytes": fixed,
             "in_memory_ns": [statistics.median(sum(it[::2], [])) for it in delays], "arms": {}}
    for arm, window_bytes in windows.items():
        phases = [1 + 2 * i for i, it in enumerate(arms) if it == arm]
        ratios = [ratios_to_neighbours(it, phases) for it in delays]
        found["arms"][arm] = {
            "windows_bytes": window_bytes,
            "shares_bytes": run["changes"][phases[0]]["shares_bytes"],
            "ratios": [statistics.median(it) for it in ratios],
            "ratios_by_turn": ratios,
            "followed_ns": [run["changes"][it].get("followed_ns") for it in phases],
            "planning_ns": [run["changes"][it]["planning_ns"] for it in phases],
        } | peak_in_cgroup(networks, options.nets, fixed + window_bytes, fixed + window_bytes + PROCESS_BYTES,
                           options.seconds)
        print(f"{name}, {arm}: " + ", ".join(f"{it:.3f}" for it in found["arms"][arm]["ratios"]), file=sys.stderr)
    return found


def print_markdown(found):
    print("| set | windows, MiB (of weights) | delay by that in memory: each network | mean | peak of budget and process, MiB |")
    print("|---|---|---|---|---|")
    for it in found["sets"]:
        for values in it["arms"].values():
            ratios = values["ratios"]
            print(f"| {it['name']} | {values['windows_bytes'] / MIB:.0f} of {it['weights_bytes'] / MIB:.0f} | "
                  + ", ".join(f"{net} {ratio:.3f}" for net, ratio in zip(it["networks"], ratios))
                  + f" | {statistics.mean(ratios):.3f} | {values['group_peak_bytes'] / MIB:.0f} of "
                  f"{values['limit_bytes'] / MIB:.0f} |")


def main():
    options = parse_arguments()
    found = machine.report_head(WEIGHTPAGER, schema_version=2) | {
        "seconds": options.seconds, "repeats": options.repeats, "sets": []}
    output = options.output or ROOT / f"bench/results/{found['date']}-several_networks.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.sets.split(","):
        found["sets"].append(measure(name, options))
        output.write_text(json.dumps(found, indent=1) + "\n")
    print_markdown(found)


if __name__ == "__main__":
    main()
