#!/usr/bin/env python3
"""A mixture of experts in released llama.cpp: a weightpager window against the kernel's mmap.

16 layers of 32 experts, of which a token uses 4, Q8_0, 5.4 GB, in a window of 30 %: what is used by every token
fits, a quarter of the experts fits beside it, and nobody knows which of them comes next. Both arms run inside
the same memory cgroup and take turns (engine_runs.py); medians count. The kernel's figure depends on the disk's
readahead, so it is measured at two: 128 KiB, the usual default, and 8 MiB.

Next to seconds per token stands what was read for a token after the first, in both arms, as the kernel counts
it. For weightpager it is held against what had to be read in the whole run, the prompt included: what is dense,
once, and every expert that was used while something of it was not in the window. "of chunks" counts of these the
chunks that were missing, which is what the policy can be blamed for; "of experts" counts the experts' bytes. The
difference is what whole chunks cost: slabs begin and end in the middle of them.

Writes bench/results/DATE-moe_vs_mmap.json and prints a Markdown table.

    bench/moe_vs_mmap.py                          the table of docs/benchmarks.md (a quarter of an hour, root)
    bench/moe_vs_mmap.py --quick                  does it work at all (a minute or two)
"""

import argparse
import datetime
import json
import os
import pathlib

import engine_runs
import machine
from engine_runs import number

# What the project promises at a readahead in KiB: mmap time / weightpager time.
RATIO_PROMISED = {128: 2.0, 8192: 8.0}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="5140MiB", help="of the model (default %(default)s: 16 layers)")
    parser.add_argument("--experts", type=int, default=32, help="of each layer (default %(default)s)")
    parser.add_argument("--experts-used", type=int, default=4, help="by a token (default %(default)s)")
    parser.add_argument("--window", type=int, default=30, metavar="PERCENT", help="of the model")
    parser.add_argument("--readahead", default="128,8192", metavar="KIB,…", help="of the disk (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each arm at each readahead")
    parser.add_argument("--tokens", type=int, default=24, help="per run; the first is counted apart")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=pathlib.Path, help="of the JSON report")
    parser.add_argument("--quick", action="store_true", help="768 MiB of 8 experts, 2 used, once")
    options = parser.parse_args()
    if options.quick:
        options.size, options.experts, options.experts_used = "768MiB", 8, 2
        options.repeats, options.tokens = 1, 8
    options.readahead = [int(kib) for kib in options.readahead.split(",")]
    if options.tokens < 3 or options.repeats < 1:
        parser.error("at least 3 tokens and 1 repeat: medians need something to choose from")
    return options


def model_file(options):
    name = f"llama-moe-{options.size}-{options.experts}x{options.experts_used}-q8_0.gguf"
    return engine_runs.made_model(name, "--arch", "llama-moe", "--size", options.size, "--type", "q8_0",
                                  "--experts", str(options.experts), "--experts-used", str(options.experts_used))


def model_facts(path):
    """Sizes as `weightpager model show` has them."""
    shown = json.loads(engine_runs.tool_output(engine_runs.WEIGHTPAGER, "model", "show", "--json", path))
    layers = [layer["experts"] for layer in shown["layers"] if "experts" in layer]
    of_experts = sum(layer["size_bytes"] for layer in layers)
    used = sum(layer["size_bytes"] // layer["count"] * shown["experts_used"] for layer in layers)
    return {"file": path.name, "bytes": shown["size_bytes"], "layers": len(layers),
            "experts": layers[0]["count"], "experts_used": shown["experts_used"],
            "expert_bytes": of_experts // sum(layer["count"] for layer in layers),
            "dense_bytes": sum(layer["size_bytes"] for layer in shown["layers"] if layer["access"] == "whole")
            - of_experts, "used_bytes_per_token": used}


def measure(engine, options, report):
    """One readahead after the other; within one the arms take turns."""
    report["resident"] = resident = engine_runs.measure_resident(engine, options.repeats)
    report["plans"] = []
    for kib in options.readahead:
        plan = engine_runs.window_plan(options.window, report["model"]["bytes"], resident["own_bytes"])
        plan["readahead_kib"] = kib
        engine_runs.say(f"readahead {kib} KiB")
        with machine.readahead(engine.model, kib):
            for repeat in range(options.repeats):
                engine_runs.run_pair(engine, plan, kernel_first=repeat % 2 == 0)
        report["plans"].append(plan)


def evaluate(plan, report):
    valid = engine_runs.take_medians(plan, report["resident"]["tokens"], report["build"])
    for arm, runs in valid.items():
        plan[f"{arm}_token_read_bytes"] = machine.median([run["token_read_bytes"] for run in runs])
    model = report["model"]
    counters = [run["pager"]["processes"][0] for run in valid["weightpager"]]
    plan["missed_share"] = machine.median(
        [each["expert_misses"] / max(each["expert_uses"], 1) for each in counters])
    plan["read_of_chunks"] = machine.median(
        [each["read_bytes"] / (model["dense_bytes"] + each["expert_missing_bytes"]) for each in counters])
    plan["read_of_experts"] = machine.median(
        [each["read_bytes"] / (model["dense_bytes"] + each["expert_misses"] * model["expert_bytes"])
         for each in counters])
    plan["direct_bytes_per_second"] = machine.median(
        [run["direct_bytes_per_second"] for run in valid["weightpager"]])


def verdict(plan, options):
    wanted = RATIO_PROMISED.get(plan["readahead_kib"])
    words = ["not judged on a small model"] if options["quick"] else []
    if wanted and not options["quick"]:
        kept = plan["ratio"] is not None and plan["ratio"] >= wanted
        words.append(f"ratio ≥ {wanted:.0f}: {'kept' if kept else '**missed**'}")
    return ", ".join(words + engine_runs.invalid_words(plan))


def megabytes(size_bytes):
    return number(None if size_bytes is None else size_bytes / 1e6, 0)


def markdown(report):
    facts, build, model = report["machine"], report["build"], report["model"]
    resident, options = report["resident"], report["options"]
    speeds = [plan["direct_bytes_per_second"] / 1e9 for plan in report["plans"] if plan["direct_bytes_per_second"]]
    lines = [
        f"{report['date']}, commit {build['commit']} ({build['build_type']}). Machine: kernel "
        f"{facts['kernel']}, {facts['cpus']} × {facts['cpu']}, {facts['memory_bytes'] / 1e9:.0f} GB, "
        f"{facts['filesystem']}, load average at the start {facts['load_average']:.1f}. Disk: direct reads "
        f"{' and '.join(f'{speed:.2f}' for speed in speeds)} GB/s. Model: Q8_0 Llama of "
        f"{model['bytes'] / 1e9:.2f} GB, {model['layers']} layers of {model['experts']} experts, "
        f"{model['experts_used']} used; a token uses {model['used_bytes_per_token'] / 1e6:.0f} MB of experts. "
        f"{options['repeats']} × {options['tokens']} tokens, {options['threads']} threads; everything in memory "
        f"{resident['token_s']:.3f} s per token. Window {report['plans'][0]['percent']} % "
        f"({report['plans'][0]['window_bytes'] / 1e9:.2f} GB); limit: window + "
        f"{resident['own_bytes'] / 2**20:.0f} MiB (the engine's own) + 64 MiB.",
        "",
        "| readahead | kernel mmap s/token | weightpager s/token | ratio | kernel read MB/token "
        "| weightpager read MB/token | experts missed | read / missing: of chunks | of experts | promised |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for plan in report["plans"]:
        share = plan["missed_share"]
        lines.append(
            f"| {plan['readahead_kib']} KiB | {number(plan['kernel_s'], 3)} | {number(plan['weightpager_s'], 3)} "
            f"| {number(plan['ratio'])} | {megabytes(plan['kernel_token_read_bytes'])} "
            f"| {megabytes(plan['weightpager_token_read_bytes'])} "
            f"| {number(None if share is None else 100 * share, 0)} % | {number(plan['read_of_chunks'])} "
            f"| {number(plan['read_of_experts'])} | {verdict(plan, options)} |")
    return "\n".join(lines)


def default_output(options, report):
    name = f"{report['date']}-moe_vs_mmap"
    if options.quick:
        return engine_runs.BUILD / f"{name}-quick.json"
    return engine_runs.ROOT / f"bench/results/{name}.json"


def main():
    options = parse_arguments()
    build = engine_runs.build_facts()
    model = model_file(options)
    engine = engine_runs.Engine(model, options)
    engine_runs.warn_if_busy()
    report = {
        "benchmark": "moe_vs_mmap", "date": datetime.date.today().isoformat(), "build": build,
        "machine": machine.facts(model), "model": model_facts(model),
        "options": {"repeats": options.repeats, "tokens": options.tokens, "threads": options.threads,
                    "quick": options.quick},
    }
    measure(engine, options, report)
    for plan in report["plans"]:
        evaluate(plan, report)
    engine_runs.write_report(report, options.output or default_output(options, report))
    print(markdown(report))


if __name__ == "__main__":
    main()
