#!/usr/bin/env python3
"""Joint plans against real runs: docs/explanation/benchmarks.md.

For each network and some budgets between the least and what is enough for everything, some times: plans (`weightpager
plan`, which also tries its plans), packs the weights for the plan, and runs it inside a memory cgroup, taking turns
with what `infer --window` makes of the same budget. Prints calculated, tried and measured delays, their ratio to `infer
--window`, and the memory that was used.
How fast the disk is, and what the plan takes with everything in memory and when it is tried, is measured before and after
each run, in the way that plans measure it, and in a file as new as the one that is run: what was written long ago may be
read at another speed. What was tried is the mean of before and after. A repeat in which one of these changed by more than
15 %, or in which other processes took more than 4 % of the processors, says nothing about a plan: it is done again, up to
twice as often as was asked for, or else marked, and left out of the medians if there are others. Runs take seconds, because a
shared machine changes its pace from second to second: virtual processors that share a core at times take nearly twice as
long then, and `--threads 1` is what can be measured there. The first run on a machine measures every way to compute every
convolution: a minute or two for each network, on a quiet machine.

    bench/joint_plans.py --nets DIR       writes bench/results/DATE-joint_plans.json and prints Markdown
    bench/joint_plans.py --nets DIR --networks squeezenet --budgets 2 --repeats 1     does it work at all

DIR gets the networks that are not there yet (`weightpager model make`, `model pack`).
"""

import argparse
import itertools
import json
import operator
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import machine
from several_networks import MIB, ROOT, WEIGHTPAGER, make_network

NETWORKS = "squeezenet,googlenet,alexnet,resnet18,resnet50,vgg16"
# Of the process itself, beside windows, activations and scratch memory, and some air.
PROCESS_BYTES = 96 * MIB
# Of the disk's speed and the machine's within a repeat; of the processors, what other processes may take.
STEADY = 0.15
OTHERS_MOST = 0.04


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=pathlib.Path, required=True, help="folder of the networks")
    parser.add_argument("--networks", default=NETWORKS, help="default %(default)s")
    parser.add_argument("--budgets", type=int, default=5, help="for each network (default %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="that compute (default %(default)s)")
    parser.add_argument("--passes", type=int, default=12, help="at least, in each run (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="that a run takes, if more (default %(default)s)")
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
        str(ROOT / "tools/scripts/lib/cgroup.sh"), "--limit", str(limit_bytes), "--report", str(group), "--",
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


def expected_ns(plan):
    """The time of its trial run, if it had one, otherwise what was calculated."""
    return plan["trial_run_ns"] or plan["delay_ns"]


def is_steady(before_after):
    return abs(before_after[1] / before_after[0] - 1) <= STEADY


class OtherProcesses:
    """What they take of all processors since this was made: busy, but not by our children that have ended."""

    def __init__(self):
        self.began = time.monotonic()
        self.before_s = self.taken_s()

    @staticmethod
    def taken_s():
        user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
        own = os.times()
        own_s = own.user + own.system + own.children_user + own.children_system
        return (user + nice + system) / os.sysconf("SC_CLK_TCK") - own_s

    def share(self):
        return (self.taken_s() - self.before_s) / (time.monotonic() - self.began) / os.cpu_count()


def passes_of(plan, options):
    return max(options.passes, int(options.seconds * 1e9 / plan["delay_ns"]))


def measure_budget(name, budget, scratch, options):
    """Each repeat plans anew, so that a plan and its run are of one moment; ratios are taken within a repeat."""
    cfg, weights, packed = (options.nets / f"{name}.{ending}" for ending in ("cfg", "weights", "packed"))
    plan_path, planned_path = scratch / "plan.json", options.nets / f"{name}.planned"
    copy_path = options.nets / f"{name}.copy"
    threads = ("--threads", options.threads)
    probe = infer(scratch, budget + 1024 * MIB, 2, cfg, packed, *threads)
    window = budget - probe["activation_bytes"] - probe["scratch_bytes"]
    limit = budget + PROCESS_BYTES
    planning = ("plan", cfg, "--weights", copy_path, "--budget", budget, *threads)
    plans, planned, plain, disks, in_memory, tried, others, steady = [], [], [], [], [], [], [], []
    for _ in range(2 * options.repeats):
        if sum(steady) == options.repeats:
            break
        weightpager("model", "pack", cfg, weights, "-f", "-o", copy_path)
        other_processes = OtherProcesses()
        before = made(scratch, *planning, "-o", plan_path)["read_bytes_per_s"]
        plan = json.loads(plan_path.read_text())
        weightpager("model", "pack", cfg, weights, "--plan", plan_path, "-f", "-o", planned_path)
        passes = passes_of(plan, options)
        planned.append(infer(scratch, limit, passes, cfg, planned_path, "--plan", plan_path))
        after = made(scratch, *planning)
        chosen_after = after["networks"][0]["chosen"]
        others.append(other_processes.share())
        plans.append(plan)
        disks.append((before, after["read_bytes_per_s"]))
        in_memory.append((plan["compute_ns"], chosen_after["compute_ns"]))
        tried.append((expected_ns(plan), expected_ns(chosen_after)))
        steady.append(all(map(is_steady, (disks[-1], in_memory[-1], tried[-1]))) and others[-1] <= OTHERS_MOST)
        if window >= 1 * MIB:
            plain.append(infer(scratch, limit, passes, cfg, copy_path, "--window", window, *threads))
    planned_path.unlink()
    copy_path.unlink()
    counted = steady if any(steady) else [True] * len(steady)
    calculated_ns = [plan["delay_ns"] for plan in plans]
    planned_ns = list(map(statistics.mean, tried))
    measured_ns = list(map(median_delay, planned))
    plain_ns = list(map(median_delay, plain))

    def median_of(values):
        return statistics.median(itertools.compress(values, counted))

    row = {"budget_bytes": budget, "planned_ns": median_of(planned_ns), "planned_each_ns": planned_ns,
           "calculated_ns": median_of(calculated_ns),
           "bound_ns": median_of(plan["bound_ns"] for plan in plans),
           "compute_ns": median_of(plan["compute_ns"] for plan in plans),
           "read_bytes_per_pass": median_of(plan["read_bytes_per_pass"] for plan in plans),
           "measured_ns": median_of(measured_ns), "measured_each_ns": measured_ns,
           "measured_by_planned": median_of(map(operator.truediv, measured_ns, planned_ns)),
           "measured_by_calculated": median_of(map(operator.truediv, measured_ns, calculated_ns)),
           "disk_before_after_bytes_per_s": disks, "in_memory_before_after_ns": in_memory,
           "tried_before_after_ns": tried, "others_share": others, "is_steady": steady,
           "window_ns": statistics.median(plain_ns) if plain_ns else None, "window_each_ns": plain_ns,
           "memory_bytes": max(map(memory, planned)),
           "group_peak_bytes": max(it["group"]["max_bytes"] for it in planned),
           "limit_bytes": limit, "oom_kills": sum(it["group"]["oom_kills"] for it in planned)}
    print(f"{name}, {budget / MIB:.1f} MiB: planned {row['planned_ns'] / 1e6:.2f}, measured "
          f"{row['measured_ns'] / 1e6:.2f}, {100 * (row['measured_by_planned'] - 1):+.0f} %; steady in "
          f"{sum(steady)} of {len(steady)}", file=sys.stderr)
    return row


def measure(name, scratch, options):
    make_network(name, options.nets)
    cfg = options.nets / f"{name}.cfg"
    # Its input's size decides what a picture is scaled to; any picture will do.
    (scratch / "picture.ppm").write_bytes(b"P6\n64 64\n255\n" + bytes(range(256)) * 48)
    threads = ("--threads", options.threads)
    primitives = made(scratch, "plan", "primitives", cfg, *threads)
    front = made(scratch, "plan", cfg, "--weights", options.nets / f"{name}.packed", *threads)["networks"][0]
    least, most = front["least_bytes"], front["front"][-1]["budget_bytes"]
    steps = options.budgets + 1
    budgets = [int(least * (most / least) ** (step / steps)) for step in range(1, steps)] + [most]
    greedy = [it["greedy_time_ns"] / it["time_ns"] for it in primitives["points"] if it["greedy_time_ns"]]
    return {"name": name, "least_bytes": least, "most_bytes": most,
            "greedy_slower_most": max(greedy, default=None),
            "budgets": [measure_budget(name, budget, scratch, options) for budget in budgets[:options.budgets]]}


def range_words(pairs, unit):
    """The least and the most of what was measured before and after each run."""
    values = [value / unit for pair in pairs for value in pair]
    return f"{min(values):.1f} to {max(values):.1f}"


def print_markdown(found):
    print("| network | budget, MiB | calculated ms | tried ms | measured ms | off calculated | off tried | steady | "
          "in memory, ms | disk, GB/s | `infer --window` ms | faster | used, MiB | group's peak, MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for it in found["networks"]:
        for row in it["budgets"]:
            plain, steady = row["window_ns"], row["is_steady"]
            print(f"| {it['name']} | {row['budget_bytes'] / MIB:.1f} | {row['calculated_ns'] / 1e6:.2f} | "
                  f"{row['planned_ns'] / 1e6:.2f} | {row['measured_ns'] / 1e6:.2f} | "
                  f"{100 * (row['measured_by_calculated'] - 1):+.0f} % | "
                  f"{100 * (row['measured_by_planned'] - 1):+.0f} % | "
                  f"{sum(steady)} of {len(steady)} | {range_words(row['in_memory_before_after_ns'], 1e6)} | "
                  f"{range_words(row['disk_before_after_bytes_per_s'], 1e9)} | "
                  + (f"{plain / 1e6:.2f} | {plain / row['measured_ns']:.2f}×" if plain else "too small | ")
                  + f" | {row['memory_bytes'] / MIB:.1f} | {row['group_peak_bytes'] / MIB:.0f} of "
                  f"{row['limit_bytes'] / MIB:.0f} |")
    rows = [row for it in found["networks"] for row in it["budgets"]]
    for words, key in (("in its trial run", "measured_by_planned"), ("by calculation", "measured_by_calculated")):
        print(f"\n{sum(abs(row[key] - 1) <= 0.1 for row in rows)} of {len(rows)} times are within 10 % of what the plan "
              f"took {words}.")


def main():
    options = parse_arguments()
    found = machine.report_head(WEIGHTPAGER, schema_version=1) | {
        "threads": options.threads, "passes": options.passes, "seconds": options.seconds,
        "repeats": options.repeats, "networks": []}
    output = options.output or ROOT / f"bench/results/{found['date']}-joint_plans.json"
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.networks.split(","):
            found["networks"].append(measure(name, pathlib.Path(scratch), options))
            output.write_text(json.dumps(found, indent=1) + "\n")
    print_markdown(found)


if __name__ == "__main__":
    main()
