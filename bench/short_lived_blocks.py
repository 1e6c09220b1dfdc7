#!/usr/bin/env python3
"""What --spill costs an engine that takes and gives back large blocks thousands of times a second, such as activations
of long prompts: the same program (short_lived_blocks.cc) with and without it, in turns.

Blocks of one length and of many lengths, of which each byte is written, or one in each page. Compared are medians of
blocks a second and of processor time a block; the latter is sound on a busy machine, too.

    bench/short_lived_blocks.py            writes bench/results/DATE-short_lived_blocks.json and prints Markdown
    bench/short_lived_blocks.py --quick    does it work at all
"""

import json
import subprocess
import tempfile

import comparison
import machine
from comparison import number
from engine_runs import BUILD, CACHE, WEIGHTPAGER, say

# name: MiB at least and at most, and how many bytes apart the written ones are
CASES = {
    "4 MiB, each byte": (4, 4, 1),
    "4 MiB, a byte a page": (4, 4, 4096),
    "16 MiB, each byte": (16, 16, 1),
    "64 MiB, each byte": (64, 64, 1),
    "4 to 16 MiB, each byte": (4, 16, 1),
    "4 to 64 MiB, each byte": (4, 64, 1),
}
SLOWER_PROMISED = 1.02


def run(case, seconds, folder=None):
    command = [BUILD / "bench/short_lived_blocks", *(str(word) for word in case), str(seconds)]
    if folder:
        command = [WEIGHTPAGER, "run", "-q", "--window", "512MiB", "--spill", folder, "--", *command]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(case, options, folder):
    arms = {"plain": None, "spill": folder}
    runs = {arm: [] for arm in arms}
    for repeat in range(options.repeats):
        for arm in arms if repeat % 2 == 0 else reversed(arms):
            runs[arm].append(run(case, options.seconds, arms[arm]))

    def medians(figure):
        return {arm: machine.median([each[figure] for each in runs[arm]]) for arm in arms}

    rates, costs = medians("blocks_per_s"), medians("processor_us_per_block")
    return {"runs": runs, "blocks_per_s": rates, "processor_us_per_block": costs,
            "slower": rates["plain"] / rates["spill"], "dearer": costs["spill"] / costs["plain"]}


def markdown(report):
    lines = [f"{comparison.opening(report)}, load average at the start {report['machine']['load_average']:.1f}. "
             f"{report['options']['repeats']} × {report['options']['seconds']} s.", "",
             "| blocks | a second, plain | with --spill | time, with / without | processor time, with / without |",
             "|---|---|---|---|---|"]
    for name, row in report["cases"].items():
        rates = row["blocks_per_s"]
        lines.append(f"| {name} | {number(rates['plain'], 0)} | {number(rates['spill'], 0)} | {number(row['slower'], 3)} "
                     f"| {number(row['dearer'], 3)} |")
    return "\n".join(lines + comparison.verdict([(name, row["slower"], SLOWER_PROMISED, False)
                                                  for name, row in report["cases"].items()], report))


def main():
    parser = comparison.argument_parser(__doc__, "0MiB", "a second, once")
    parser.add_argument("--seconds", type=int, default=4, help="of each run (default %(default)s)")
    options = comparison.parse(parser, "seconds", {"seconds": 3, "repeats": 1})
    build = comparison.build_facts()
    comparison.warn_if_busy()
    report = comparison.new_report("short_lived_blocks", build, CACHE, options, "repeats", "seconds", "quick")
    report["cases"] = {}
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="spill.") as folder:
        for name, case in CASES.items():
            row = report["cases"][name] = measure(case, options, folder)
            say(f"{name}: {row['slower']:.3f} of the time, {row['dearer']:.3f} of the processor time")
    comparison.publish(report, markdown(report), options)


if __name__ == "__main__":
    main()
