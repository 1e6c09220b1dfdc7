#!/usr/bin/env python3
"""What telemetry costs: the same passes by the pager as it is and by one in which recording is nothing, in turns.

Beside it the sum on paper: how often a pass records, times what that takes. In three places: everything in memory
(nothing to record), half of the model in chunks of 2 MiB, and in chunks of 64 KiB, of which there are most. With a
third arm in which somebody traces every event (`weightpager trace record`). Compared are the quickest passes of each
arm, which nothing else on the machine disturbed, and those that took processors least; medians stand beside them.

    bench/telemetry_cost.py            writes bench/results/DATE-telemetry_cost.json and prints Markdown
    bench/telemetry_cost.py --quick    does it work at all
"""

import json
import statistics
import subprocess

from comparison import argument_parser, build_facts, new_report, number, opening, parse, publish, verdict, warn_if_busy
from engine_runs import BUILD, say
from llama_runs import made_model

PLACES = {"all in memory": (1.1, 2048), "half, chunks of 2 MiB": (0.5, 2048), "half, chunks of 64 KiB": (0.5, 64)}
ARMS = {"with": ("with", []), "without": ("without", []), "traced": ("with", ["trace"])}


def run(program, model, window_bytes, chunk_kib, passes, words=()):
    path = BUILD / f"bench/telemetry_cost_{program}"
    if not path.exists():
        raise SystemExit(f"{path} is missing: cmake --build --preset release --target telemetry_cost")
    done = subprocess.run([path, model, str(window_bytes >> 20), str(chunk_kib), str(passes), *words],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def recorded_ns(counted, cost):
    """Of a pass, on paper: every store, the buckets of histograms, and the clock at reads and at faults."""
    observed = counted["reads"] + counted["faults"]
    return (counted["recordings"] * cost["add_ns"] + observed * (cost["histogram_add_ns"] + cost["clock_ns"])) / len(
        counted["passes_ns"])


def measure(model, share, chunk_kib, options):
    window_bytes = int(model.stat().st_size * share)
    rounds = []
    for index in range(options.rounds):
        order = list(ARMS) if index % 2 == 0 else list(reversed(ARMS))
        rounds.append({arm: run(ARMS[arm][0], model, window_bytes, chunk_kib, options.passes, ARMS[arm][1])
                       for arm in order})
    counted = run("counted", model, window_bytes, chunk_kib, options.passes)
    # The dearest that was seen: what is timed in a loop is cheaper than elsewhere.
    cost = {name: max(round["with"]["costs"][name] for round in rounds) for name in rounds[0]["with"]["costs"]}
    cost["add_ns"] = max(cost["add_ns"], counted["costs"]["add_ns"])

    def ratio(arm, figure, of="passes_ns"):
        with_it, without = ([ns for round in rounds for ns in round[it][of]] for it in (arm, "without"))
        return figure(with_it) / figure(without)

    row = {"window_bytes": window_bytes, "chunk_kib": chunk_kib, "rounds": rounds, "counted": counted, "cost": cost,
           "pass_ns": min(ns for round in rounds for ns in round["with"]["passes_ns"]),
           "recordings_per_pass": counted["recordings"] / options.passes,
           "recording_ns_per_pass": recorded_ns(counted, cost), "ratio": ratio("with", min),
           "ratio_of_medians": ratio("with", statistics.median), "ratio_cpu": ratio("with", min, "cpu_ns"),
           "ratio_traced": ratio("traced", min)}
    row["share_on_paper"] = row["recording_ns_per_pass"] / row["pass_ns"]
    return row


def main():
    parser = argument_parser(__doc__, "512MiB", "a small model and few passes")
    parser.add_argument("--passes", type=int, default=8, help="of each run")
    parser.add_argument("--rounds", type=int, default=10, help="of one run of each arm")
    options = parse(parser, "passes", {"size": "128MiB", "passes": 3, "rounds": 2})
    build = build_facts()
    warn_if_busy()
    model = made_model(f"telemetry-cost-{options.size}.gguf", "--size", options.size, "--type", "f16")
    report = new_report("telemetry_cost", build, model, options, "size", "passes", "rounds", "quick")
    report["places"] = {}
    for name, (share, chunk_kib) in PLACES.items():
        row = report["places"][name] = measure(model, share, chunk_kib, options)
        say(f"{name}: {row['ratio']:.4f} with telemetry, {row['ratio_traced']:.4f} traced, "
            f"{100 * row['share_on_paper']:.4f} % on paper")
    lines = [opening(report), "", "| window | pass | recordings | on paper | with / without | of CPU time | of medians | traced / without |",
             "|---|---|---|---|---|---|---|---|"]
    for name, row in report["places"].items():
        lines.append(f"| {name} | {row['pass_ns'] / 1e6:.0f} ms | {row['recordings_per_pass']:.0f} | "
                     f"{100 * row['share_on_paper']:.3f} % | {number(row['ratio'], 3)} | {number(row['ratio_cpu'], 3)} | "
                     f"{number(row['ratio_of_medians'], 3)} | {number(row['ratio_traced'], 3)} |")
    lines += verdict([(f"{what}, {name}", row[key], wanted, False) for name, row in report["places"].items()
                      for what, key, wanted in (("on paper", "share_on_paper", 0.01), ("ratio", "ratio", 1.01))], report)
    publish(report, "\n".join(lines), options)


if __name__ == "__main__":
    main()
