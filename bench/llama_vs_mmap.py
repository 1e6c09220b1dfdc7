#!/usr/bin/env python3
"""Released llama.cpp with its weights in a weightpager window, against the kernel's mmap.

Both arms run the same engine on the same F16 model inside the same memory cgroup (llama_runs.py says which).
They take turns, and medians count.

How fast could it be? A pass cannot beat the computation with everything in memory, nor the disk that brings
what the window does not hold: ceiling = max(resident time, (model - window + ring) / direct-read bandwidth).
The bandwidth is fio's, measured right before and right after each of weightpager's runs, because shared disks
change from minute to minute. "of ceiling" is the ceiling of a run over its time, the median of all runs.

A cold start has two yardsticks: the time that all bytes take at fio's speed, and the cold floor: what
bench/cold_read.cc needs to bring them into as much fresh memory as the window, right before. On a virtual
machine the host's memory can be slower than the disk. Before either starts, the memory that the last program
freed is given time to go back to the host, or the next would be handed it for nothing.

Writes bench/results/DATE-llama_vs_mmap.json and prints a Markdown table.

    bench/llama_vs_mmap.py --readahead 8192       the table of docs/explanation/benchmarks.md (half an hour)
    bench/llama_vs_mmap.py --quick                does it work at all (a minute or two)
"""

import comparison
import llama_runs
import machine
from comparison import number
from engine_runs import say

RING_BYTES_ASSUMED = 128 << 20  # where weightpager's report does not say
FITS_PERCENT = 110

# What the project promises, at a readahead in KiB and a window in percent: mmap time / weightpager time.
RATIO_PROMISED = {(8192, 25): 1.6, (8192, 36): 1.9, (8192, 66): 3.3, (8192, 72): 4.0, (128, 36): 3.0}
CEILING_PROMISED = 0.95
CEILING_PROMISED_AT = (12, 25, 33, 50, 66)
FITS_PROMISED = 0.98
FIRST_TOKEN_PROMISED = 1.15


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "4200MiB", "512 MiB, windows of 25 and 110 %%, once")
    parser.add_argument("--windows", type=comparison.whole_numbers, default="12,25,33,36,50,66,72,110",
                        metavar="PERCENT,…", help="of the model (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=8, help="per run; the first is counted apart")
    parser.add_argument("--readahead", type=int, metavar="KIB", help="set the disk's for this run (root)")
    return comparison.parse(parser, "tokens", {"size": "512MiB", "windows": [25, 110], "repeats": 1, "tokens": 4})


def measure(engine, options, report):
    """Interleaves everything: each round goes over all windows, the arms take turns to be first."""
    report["resident"] = resident = llama_runs.measure_resident(engine, options.repeats)
    report["windows"] = [llama_runs.window_plan(percent, report["model"]["bytes"], resident["own_bytes"])
                         for percent in options.windows]
    for repeat in range(options.repeats):
        say(f"round {repeat + 1} of {options.repeats}")
        for plan in report["windows"]:
            llama_runs.run_pair(engine, plan, kernel_first=repeat % 2 == 0)
    each = [run["direct_bytes_per_second"] for plan in report["windows"] for run in plan["weightpager"]]
    report["disk"] = {"direct_bytes_per_second": machine.median(each),
                      "direct_bytes_per_second_min": min(each), "direct_bytes_per_second_max": max(each)}


def ring_bytes(runs):
    for run in runs:
        for process in (run.get("pager") or {}).get("processes", []):
            if process.get("ring_bytes"):
                return process["ring_bytes"]
    return RING_BYTES_ASSUMED


def ceiling_s(plan, report, run):
    """The least time of a pass of this run; with everything resident, the computation alone."""
    model_bytes, window_bytes = report["model"]["bytes"], plan["window_bytes"]
    if window_bytes >= model_bytes:
        return report["resident"]["token_s"]
    streamed = min(model_bytes, model_bytes - window_bytes + plan["ring_bytes"])
    return max(report["resident"]["token_s"], streamed / run["direct_bytes_per_second"])


def evaluate(plan, report):
    """Medians of the valid runs, and what they say against ceiling and kernel."""
    valid = llama_runs.take_medians(plan, report["resident"]["tokens"], report["build"])
    plan["ring_bytes"] = ring_bytes(plan["weightpager"])
    for run in valid["weightpager"]:
        run["ceiling_s"] = ceiling_s(plan, report, run)
    plan["ceiling_s"] = machine.median([run["ceiling_s"] for run in valid["weightpager"]])
    plan["of_ceiling"] = machine.median([run["ceiling_s"] / run["token_s_median"]
                                         for run in valid["weightpager"]])
    plan.update(first_token(valid["weightpager"], report))


def first_token(runs, report):
    """From a cold start: counted from the start of loading, when the reading may begin, less what loading takes
    with everything resident; over the time that all bytes take at the disk's speed, and over the cold floor."""
    if not runs:
        return {"first_token_s": None, "start_ratio": None, "start_of_floor": None}
    resident = report["resident"]

    def start_over(run, least_s):
        start_s = run["load_s"] + run["first_token_s"] - resident["load_s"]
        return start_s / max(least_s, resident["first_token_s"])

    def over_bytes(run):
        return start_over(run, report["model"]["bytes"] / run["direct_bytes_per_second"])

    return {"first_token_s": machine.median([run["first_token_s"] for run in runs]),
            "start_ratio": machine.median([over_bytes(run) for run in runs]),
            "start_of_floor": machine.median([start_over(run, run["cold_floor_s"]) for run in runs])}


def promises(plan, readahead_kib):
    """(what, measured, wanted, whether larger is better) of all that was promised for this window."""
    percent = plan["percent"]
    if percent >= 100:
        return [("ratio", plan["ratio"], FITS_PROMISED, True)]
    wanted = [("start", plan["start_ratio"], FIRST_TOKEN_PROMISED, False)]
    if (readahead_kib, percent) in RATIO_PROMISED:
        wanted.append(("ratio", plan["ratio"], RATIO_PROMISED[readahead_kib, percent], True))
    if percent in CEILING_PROMISED_AT:
        wanted.append(("ceiling", plan["of_ceiling"], CEILING_PROMISED, True))
    return wanted


def verdict(plan, report):
    judged = promises(plan, report["machine"]["readahead_kib"])
    return ", ".join(comparison.verdict(judged, report) + llama_runs.invalid_words(plan))


def markdown(report):
    facts, disk = report["machine"], report["disk"]
    model, resident, options = report["model"], report["resident"], report["options"]
    lines = [
        f"{comparison.opening(report)}, load average at the start {facts['load_average']:.1f}. Disk: direct reads "
        f"{disk['direct_bytes_per_second'] / 1e9:.2f} GB/s ({disk['direct_bytes_per_second_min'] / 1e9:.2f} to "
        f"{disk['direct_bytes_per_second_max'] / 1e9:.2f} over the run), readahead {facts['readahead_kib']} KiB. "
        f"Model: dense F16 Llama of {model['bytes'] / 1e9:.2f} GB; {options['repeats']} × "
        f"{options['tokens']} tokens, {options['threads']} threads; everything in memory "
        f"{resident['token_s']:.3f} s per token. Limit: window + "
        f"{resident['own_bytes'] / 2**20:.0f} MiB (the engine's own) + 64 MiB.",
        "",
        "| window | kernel mmap s/token | weightpager s/token | ratio | ceiling s | of ceiling | first token s "
        "| start / bytes' time | start / cold floor | promised |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for plan in report["windows"]:
        lines.append(
            f"| {plan['percent']} % ({plan['window_bytes'] / 1e9:.2f} GB) | {number(plan['kernel_s'], 3)} "
            f"| {number(plan['weightpager_s'], 3)} | {number(plan['ratio'])} | {number(plan['ceiling_s'], 3)} "
            f"| {number(plan['of_ceiling'])} | {number(plan['first_token_s'])} | {number(plan['start_ratio'])} "
            f"| {number(plan['start_of_floor'])} | {verdict(plan, report)} |")
    return "\n".join(lines)


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    model = llama_runs.made_model(f"llama-{options.size}-f16.gguf", "--arch", "llama", "--size", options.size,
                                  "--type", "f16")
    engine = llama_runs.Engine(model, options)
    comparison.warn_if_busy()
    with machine.readahead(model, options.readahead):
        report = comparison.new_report("llama_vs_mmap", build, model, options, "repeats", "tokens", "threads",
                                       "quick")
        report["model"] = {"file": model.name, "bytes": model.stat().st_size}
        measure(engine, options, report)
    for plan in report["windows"]:
        evaluate(plan, report)
    comparison.publish(report, markdown(report), options, f"-readahead_{report['machine']['readahead_kib']}")


if __name__ == "__main__":
    main()
