#!/usr/bin/env python3
"""Joint plans against real runs: docs/plan.md.

For each network and some budgets between the least and what is enough for everything, some times: plans (`weightpager
plan`), packs the weights for the plan, and runs it inside a memory cgroup, taking turns with what `infer --window` makes
of the same budget. Prints planned and measured delays, their ratio to `infer --window`, and the memory that was used.
How fast the disk is is measured before and after each run, in the way that plans measure it, and in a file as new as the
one that is run: what was written long ago may be read at another speed. A repeat in which it changed by more than 15 % says
nothing about a plan, is marked, and left out of the medians if there are others. The first run on a machine measures every
way to compute every convolution: a minute or two for each network, on a quiet machine.

    bench/joint_plans.py --nets DIR       writes bench/results/DATE-joint_plans.json and prints Markdown
    bench/joint_plans.py --nets DIR --networks squeezenet --budgets 2 --repeats 1     does it work at all

DIR gets the networks that are not there yet (`weightpager model make`, `model pack`).
"""

import argparse
import datetime
import itertools
import json
import operator
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import machine
from several_networks import MIB, ROOT, WEIGHTPAGER, make_network

NETWORKS = "squeezenet,googlenet,alexnet,resnet18,resnet50,vgg16"
# Of the process itself, beside windows, activations and scratch memory, and some air.
PROCESS_BYTES = 96 * MIB
# Of the disk's speed within a repeat.
STEADY = 0.15


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=pathlib.Path, required=True, help="folder of the networks")
    parser.add_argument("--networks", default=NETWORKS, help="default %(default)s")
    parser.add_argument("--budgets", type=int, default=5, help="for each network (default %(default)s)")
    parser.add_argument("--passes", type=int, default=12, help="in each run (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each run, in turns (default %(default)s)")
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def weightpager(*words):
    done = subprocess.run([str(WEIGHTPAGER), *map(str, words)], stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"weightpager {' '.join(map(str, words))} ended with {done.returncode}")


def made(scratch, *words):
    """What a subcommand writes with --json."""
    report = scratch / "report.json"
    weightpager(*words, "--json", report)
    return json.loads(report.read_text())


def infer(scratch, limit_bytes, passes, *words):
    report, group = scratch / "infer.json", scratch / "group.json"
    done = subprocess.run([
        str(ROOT / "tools/lib/cgroup.sh"), "--limit", str(limit_bytes), "--report", str(group), "--",
        str(WEIGHTPAGER), "infer", *map(str, words), str(scratch / "picture.ppm"), "--repeat", str(passes), "-q",
        "--top", "1", "--json", str(report)], stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"infer ended with {done.returncode}")
    return json.loads(report.read_text()) | {"group": json.loads(group.read_text())}


def median_delay(run):
    """The first inference fills the window."""
    return statistics.median(run["delays_ns"][1:])


def memory(run):
    return run["window_bytes"] + run["activation_bytes"] + run["scratch_bytes"]


def is_steady(disk):
    return abs(disk[1] / disk[0] - 1) <= STEADY


def measure_budget(name, budget, scratch, options):
    """Each repeat plans anew, so that a plan and its run are of one moment; ratios are taken within a repeat."""
    cfg, weights, packed = (options.nets / f"{name}.{ending}" for ending in ("cfg", "weights", "packed"))
    plan_path, planned_path = scratch / "plan.json", options.nets / f"{name}.planned"
    copy_path = options.nets / f"{name}.copy"
    probe = infer(scratch, budget + 1024 * MIB, 2, cfg, packed)
    window = budget - probe["activation_bytes"] - probe["scratch_bytes"]
    limit = budget + PROCESS_BYTES
    planning = ("plan", cfg, "--weights", copy_path, "--budget", budget)
    plans, planned, plain, disks = [], [], [], []
    for _ in range(options.repeats):
        weightpager("model", "pack", cfg, weights, "-f", "-o", copy_path)
        before = made(scratch, *planning, "-o", plan_path)["read_bytes_per_s"]
        plans.append(json.loads(plan_path.read_text()))
        weightpager("model", "pack", cfg, weights, "--plan", plan_path, "-f", "-o", planned_path)
        planned.append(infer(scratch, limit, options.passes, cfg, planned_path, "--plan", plan_path))
        disks.append((before, made(scratch, *planning)["read_bytes_per_s"]))
        if window >= 1 * MIB:
            plain.append(infer(scratch, limit, options.passes, cfg, copy_path, "--window", window))
    planned_path.unlink()
    copy_path.unlink()
    steady = [is_steady(it) for it in disks]
    counted = steady if any(steady) else [True] * len(steady)
    planned_ns = [plan["delay_ns"] for plan in plans]
    measured_ns = list(map(median_delay, planned))
    plain_ns = list(map(median_delay, plain))

    def median_of(values):
        return statistics.median(itertools.compress(values, counted))

    row = {"budget_bytes": budget, "planned_ns": median_of(planned_ns), "planned_each_ns": planned_ns,
           "bound_ns": median_of(plan["bound_ns"] for plan in plans),
           "compute_ns": median_of(plan["compute_ns"] for plan in plans),
           "read_bytes_per_pass": median_of(plan["read_bytes_per_pass"] for plan in plans),
           "measured_ns": median_of(measured_ns), "measured_each_ns": measured_ns,
           "measured_by_planned": median_of(map(operator.truediv, measured_ns, planned_ns)),
           "disk_before_after_bytes_per_s": disks, "is_disk_steady": steady,
           "window_ns": statistics.median(plain_ns) if plain_ns else None, "window_each_ns": plain_ns,
           "memory_bytes": max(map(memory, planned)),
           "group_peak_bytes": max(it["group"]["max_bytes"] for it in planned),
           "limit_bytes": limit, "oom_kills": sum(it["group"]["oom_kills"] for it in planned)}
    print(f"{name}, {budget / MIB:.1f} MiB: planned {row['planned_ns'] / 1e6:.2f}, measured "
          f"{row['measured_ns'] / 1e6:.2f}, {100 * (row['measured_by_planned'] - 1):+.0f} %; disk steady in "
          f"{sum(steady)} of {len(steady)}", file=sys.stderr)
    return row


def measure(name, scratch, options):
    make_network(name, options.nets)
    cfg = options.nets / f"{name}.cfg"
    # Its input's size decides what a picture is scaled to; any picture will do.
    (scratch / "picture.ppm").write_bytes(b"P6\n64 64\n255\n" + bytes(range(256)) * 48)
    primitives = made(scratch, "plan", "primitives", cfg)
    front = made(scratch, "plan", cfg, "--weights", options.nets / f"{name}.packed")["networks"][0]
    least, most = front["least_bytes"], front["front"][-1]["budget_bytes"]
    steps = options.budgets + 1
    budgets = [int(least * (most / least) ** (step / steps)) for step in range(1, steps)] + [most]
    greedy = [it["greedy_time_ns"] / it["time_ns"] for it in primitives["points"] if it["greedy_time_ns"]]
    return {"name": name, "least_bytes": least, "most_bytes": most,
            "greedy_slower_most": max(greedy, default=None),
            "budgets": [measure_budget(name, budget, scratch, options) for budget in budgets[:options.budgets]]}


def disk_words(row):
    """Its least and most speed, and in how many repeats it was steady, if not in all."""
    speeds = [speed / 1e9 for disk in row["disk_before_after_bytes_per_s"] for speed in disk]
    steady = row["is_disk_steady"]
    words = f"{min(speeds):.1f} to {max(speeds):.1f}"
    return words if all(steady) else f"{words} ({sum(steady)} of {len(steady)})"


def print_markdown(found):
    print("| network | budget, MiB | planned ms | measured ms | off | disk, GB/s | `infer --window` ms | faster | used, MiB | group's peak, MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for it in found["networks"]:
        for row in it["budgets"]:
            plain = row["window_ns"]
            print(f"| {it['name']} | {row['budget_bytes'] / MIB:.1f} | {row['planned_ns'] / 1e6:.2f} | "
                  f"{row['measured_ns'] / 1e6:.2f} | {100 * (row['measured_by_planned'] - 1):+.0f} % | {disk_words(row)} | "
                  + (f"{plain / 1e6:.2f} | {plain / row['measured_ns']:.2f}×" if plain else "too small | ")
                  + f" | {row['memory_bytes'] / MIB:.1f} | {row['group_peak_bytes'] / MIB:.0f} of "
                  f"{row['limit_bytes'] / MIB:.0f} |")


def main():
    options = parse_arguments()
    date = datetime.date.today().isoformat()
    output = options.output or ROOT / f"bench/results/{date}-joint_plans.json"
    with tempfile.TemporaryDirectory() as scratch:
        found = {"schema_version": 1, "date": date, "kernel": platform.release(),
                 "processor": machine.first_match("/proc/cpuinfo", "model name"),
                 "passes": options.passes, "repeats": options.repeats, "networks": []}
        for name in options.networks.split(","):
            found["networks"].append(measure(name, pathlib.Path(scratch), options))
            output.write_text(json.dumps(found, indent=1) + "\n")
    print_markdown(found)


if __name__ == "__main__":
    main()
