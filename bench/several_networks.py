#!/usr/bin/env python3
"""Several networks side by side in one budget of memory: docs/budgets.md.

SwapNet's three sets (self-driving, road-side unit, drone), with networks of the same sizes, on `weightpager serve`: with
all weights in memory, in the share of them that the paper's sets have, and in half of that. Every run is inside a memory
cgroup; its peak is the kernel's word. Networks run one inference after the other, all at once, so a delay includes what
the others do to the processors; what counts is the ratio to the same set with everything in memory, taking turns. Which arm
comes first changes from round to round: the first of a round ran on a machine that had rested. Every set is written as soon
as it is measured.

    bench/several_networks.py --nets DIR       writes bench/results/DATE-several_networks.json and prints Markdown
    bench/several_networks.py --nets DIR --sets drone --seconds 10 --repeats 1     does it work at all

DIR gets the networks that are not there yet (`weightpager model make`, `model pack`).
"""

import argparse
import datetime
import json
import pathlib
import platform
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
    parser.add_argument("--seconds", type=int, default=30, help="of each run (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=6, help="rounds of all arms (default %(default)s)")
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


def serve(networks, folder, budget_bytes, limit_bytes, seconds):
    with tempfile.TemporaryDirectory() as scratch:
        report, group = (pathlib.Path(scratch) / name for name in ("report.json", "group.json"))
        done = subprocess.run([
            str(ROOT / "tools/lib/cgroup.sh"), "--limit", str(limit_bytes), "--report", str(group), "--",
            str(WEIGHTPAGER), "serve", *[str(folder / f"{it}.cfg") for it in networks], "-q",
            "--budget", str(budget_bytes), "--seconds", str(seconds), "--json", str(report)])
        if done.returncode:
            sys.exit(f"serve ended with {done.returncode}")
        return json.loads(report.read_text()) | {"group": json.loads(group.read_text())}


def median_delays(run):
    """By network; the first inference fills the window."""
    return [statistics.median(it["delay_ns"] for it in net["inferences"][1:]) for net in run["networks"]]


def measure(name, options):
    networks, share = SETS[name]
    for it in networks:
        make_network(it, options.nets)
    # Once, to learn what activations and weights take.
    probe = serve(networks, options.nets, 16 << 30, 17 << 30, 1)
    fixed = sum(it["fixed_bytes"] for it in probe["networks"])
    weights = sum(it["weights_bytes"] for it in probe["networks"])
    arms = {"all": weights, "paper's share": int(weights * share), "half of that": int(weights * share / 2)}
    runs = {arm: [] for arm in arms}
    for repeat in range(options.repeats):
        for arm, windows in rotated(list(arms.items()), repeat):
            budget = fixed + windows
            run = serve(networks, options.nets, budget, budget + PROCESS_BYTES, options.seconds)
            runs[arm].append(run)
            print(f"{name}, {arm}, {repeat + 1}: " + ", ".join(f"{it / 1e6:.0f}" for it in median_delays(run)) + " ms",
                  file=sys.stderr)
    return {
        "name": name, "networks": networks, "weights_bytes": weights, "fixed_bytes": fixed,
        "arms": {arm: {
            "windows_bytes": windows,
            "medians_ns": [statistics.median(column) for column in zip(*map(median_delays, runs[arm]))],
            "ratios": list_of_ratios(runs, arm),
            "ratios_by_round": ratios_by_round(runs, arm),
            "counted_peak_bytes": max(it["peak_bytes"] for it in runs[arm]),
            "group_peak_bytes": max(it["group"]["max_bytes"] for it in runs[arm]),
            "oom_kills": sum(it["group"]["oom_kills"] for it in runs[arm]),
            "limit_bytes": fixed + windows + PROCESS_BYTES,
            "read_bytes": [it["read_bytes"] for it in runs[arm][-1]["networks"]],
            "inferences": [[len(it["inferences"]) for it in run["networks"]] for run in runs[arm]],
        } for arm, windows in arms.items()},
    }


def rotated(arms, turns):
    first = turns % len(arms)
    return arms[first:] + arms[:first]


def ratios_by_round(runs, arm):
    """[round][network]: its delay by that with everything in memory in the same round."""
    return [[slow / fast for slow, fast in zip(median_delays(run), median_delays(whole))]
            for run, whole in zip(runs[arm], runs["all"])]


def list_of_ratios(runs, arm):
    """By network: the median over rounds."""
    return [statistics.median(column) for column in zip(*ratios_by_round(runs, arm))]


def print_markdown(found):
    print("| set | windows, MiB (of weights) | delay by that in memory: each network | mean | peak of budget and process, MiB |")
    print("|---|---|---|---|---|")
    for it in found["sets"]:
        for arm, values in it["arms"].items():
            if arm == "all":
                continue
            ratios = values["ratios"]
            print(f"| {it['name']} | {values['windows_bytes'] / MIB:.0f} of {it['weights_bytes'] / MIB:.0f} | "
                  + ", ".join(f"{net} {ratio:.3f}" for net, ratio in zip(it["networks"], ratios))
                  + f" | {statistics.mean(ratios):.3f} | {values['group_peak_bytes'] / MIB:.0f} of "
                  f"{values['limit_bytes'] / MIB:.0f} |")


def main():
    options = parse_arguments()
    date = datetime.date.today().isoformat()
    output = options.output or ROOT / f"bench/results/{date}-several_networks.json"
    found = {"schema_version": 1, "date": date, "kernel": platform.release(),
             "processor": machine.first_match("/proc/cpuinfo", "model name"),
             "seconds": options.seconds, "repeats": options.repeats, "sets": []}
    output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.sets.split(","):
        found["sets"].append(measure(name, options))
        output.write_text(json.dumps(found, indent=1) + "\n")
    print_markdown(found)


if __name__ == "__main__":
    main()
