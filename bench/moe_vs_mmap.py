#!/usr/bin/env python3
"""A mixture of experts in released llama.cpp: a weightpager window against the kernel's mmap.

16 layers of 32 experts, of which a token uses 4, Q8_0, 5.4 GB, in a window of 30 %: what is used by every token
fits, a quarter of the experts fits beside it, and nobody knows which of them comes next. Both arms run inside
the same memory cgroup and take turns (llama_runs.py); medians count. The kernel's figure depends on the disk's
readahead, so it is measured at two: 128 KiB, the usual default, and 8 MiB.

Next to seconds per token stands what was read for a token after the first, in both arms, as the kernel counts
it. For weightpager it is held against what had to be read in the whole run, the prompt included: what is dense,
once, and every expert that was used while something of it was not in the window. "of chunks" counts of these the
chunks that were missing, which is what the policy can be blamed for; "of experts" counts the experts' bytes. The
difference is what whole chunks cost: slabs begin and end in the middle of them.

The processor time of the pager's thread is told for a token after the first, too.

Writes bench/results/DATE-moe_vs_mmap.json and prints a Markdown table.

    bench/moe_vs_mmap.py                          the table of docs/explanation/benchmarks.md (a quarter of an hour, root)
    bench/moe_vs_mmap.py --quick                  does it work at all (a minute or two)
"""

import json
import statistics

import comparison
import llama_runs
import machine
from comparison import number
from engine_runs import WEIGHTPAGER, say, tool_output

# What the project promises at a readahead in KiB: mmap time / weightpager time.
RATIO_PROMISED = {128: 2, 8192: 8}


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "5140MiB", "768 MiB of 8 experts, 2 used, once")
    parser.add_argument("--experts", type=int, default=32, help="of each layer (default %(default)s)")
    parser.add_argument("--experts-used", type=int, default=4, help="by a token (default %(default)s)")
    parser.add_argument("--window", type=int, default=30, metavar="PERCENT", help="of the model")
    parser.add_argument("--readahead", type=comparison.whole_numbers, default="128,8192", metavar="KIB,…",
                        help="of the disk (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=24, help="per run; the first is counted apart")
    return comparison.parse(parser, "tokens", {"size": "768MiB", "experts": 8, "experts_used": 2, "repeats": 1,
                                               "tokens": 8})


def model_file(options):
    name = f"llama-moe-{options.size}-{options.experts}x{options.experts_used}-q8_0.gguf"
    return llama_runs.made_model(name, "--arch", "llama-moe", "--size", options.size, "--type", "q8_0",
                                 "--experts", str(options.experts), "--experts-used", str(options.experts_used))


def model_facts(path):
    """Sizes as `weightpager model show` has them."""
    shown = json.loads(tool_output(WEIGHTPAGER, "model", "show", "--json", path))
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
    report["resident"] = resident = llama_runs.measure_resident(engine, options.repeats)
    report["plans"] = []
    for kib in options.readahead:
        plan = llama_runs.window_plan(options.window, report["model"]["bytes"], resident["own_bytes"])
        plan["readahead_kib"] = kib
        say(f"readahead {kib} KiB")
        with machine.readahead(engine.model, kib):
            for repeat in range(options.repeats):
                llama_runs.run_pair(engine, plan, kernel_first=repeat % 2 == 0)
        report["plans"].append(plan)


def evaluate(plan, report):
    valid = llama_runs.take_medians(plan, report["resident"]["tokens"], report["build"])
    for arm, runs in valid.items():
        plan[f"{arm}_token_read_bytes"] = machine.median([statistics.mean(run["pass_read_bytes"][1:])
                                                          for run in runs])
    plan["pager_s"] = machine.median([statistics.mean(run["pass_pager_s"][1:]) for run in valid["weightpager"]])
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


def verdict(plan, report):
    wanted = RATIO_PROMISED.get(plan["readahead_kib"])
    judged = [("ratio", plan["ratio"], wanted)] if wanted else []
    return ", ".join(comparison.verdict(judged, report) + llama_runs.invalid_words(plan))


def megabytes(size_bytes):
    return number(None if size_bytes is None else size_bytes / 1e6, 0)


def markdown(report):
    model, resident, options = report["model"], report["resident"], report["options"]
    speeds = [plan["direct_bytes_per_second"] / 1e9 for plan in report["plans"] if plan["direct_bytes_per_second"]]
    lines = [
        f"{comparison.opening(report)}, load average at the start {report['machine']['load_average']:.1f}. "
        f"Disk: direct reads "
        f"{' and '.join(f'{speed:.2f}' for speed in speeds)} GB/s. Model: Q8_0 Llama of "
        f"{model['bytes'] / 1e9:.2f} GB, {model['layers']} layers of {model['experts']} experts, "
        f"{model['experts_used']} used; a token uses {model['used_bytes_per_token'] / 1e6:.0f} MB of experts. "
        f"{options['repeats']} × {options['tokens']} tokens, {options['threads']} threads; everything in memory "
        f"{resident['token_s']:.3f} s per token. Window {report['plans'][0]['percent']} % "
        f"({report['plans'][0]['window_bytes'] / 1e9:.2f} GB); limit: window + "
        f"{resident['own_bytes'] / 2**20:.0f} MiB (the engine's own) + 64 MiB.",
        "",
        "| readahead | kernel mmap s/token | weightpager s/token | ratio | kernel read MB/token "
        "| weightpager read MB/token | its thread, ms/token | experts missed | read / missing: of chunks "
        "| of experts | promised |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for plan in report["plans"]:
        share = plan["missed_share"]
        lines.append(
            f"| {plan['readahead_kib']} KiB | {number(plan['kernel_s'], 3)} | {number(plan['weightpager_s'], 3)} "
            f"| {number(plan['ratio'])} | {megabytes(plan['kernel_token_read_bytes'])} "
            f"| {megabytes(plan['weightpager_token_read_bytes'])} "
            f"| {number(None if plan['pager_s'] is None else 1e3 * plan['pager_s'], 1)} "
            f"| {number(None if share is None else 100 * share, 0)} % | {number(plan['read_of_chunks'])} "
            f"| {number(plan['read_of_experts'])} | {verdict(plan, report)} |")
    return "\n".join(lines)


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    model = model_file(options)
    engine = llama_runs.Engine(model, options)
    comparison.warn_if_busy()
    report = comparison.new_report("moe_vs_mmap", build, model, options, "repeats", "tokens", "threads", "quick")
    report["model"] = model_facts(model)
    measure(engine, options, report)
    for plan in report["plans"]:
        evaluate(plan, report)
    comparison.publish(report, markdown(report), options)


if __name__ == "__main__":
    main()
