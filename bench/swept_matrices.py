#!/usr/bin/env python3
"""Engines by number of threads and window: how close a pass comes to what no pager can beat, max(computing with
everything in memory, (model - window) / disk), and how much of the model it reads.

A multiplication walks its matrix in as many places at once as it has threads, and engines take the matrices in
orders of their own. So this is the case that an order of chunks alone does not foresee. All arms run the same
program (bench/engines) in the same memory cgroup: window + what the engine needs for itself + 64 MiB; each starts
with the file out of the page cache. The disk is measured beside each run; --drive-speed makes it a steady one
(throttle.py). weightpager starts twice with a cache
directory of its own: the first start learns the engine's order, the second knows it. Passes from the third on count,
by their mean, of the second start; "first pass" is what its first pass reads over what these read and what loading has
left of the window to fill. A run whose output differs by one bit from the run in memory is marked invalid.

Writes bench/results/DATE-swept_matrices.json and prints a Markdown table.

    bench/swept_matrices.py                              the table of docs/explanation/benchmarks.md (half an hour)
    bench/swept_matrices.py --only safetensors --size 4096MiB --passes 9
                                                         PyTorch alone on a larger model (ten minutes)
    bench/swept_matrices.py --model DIR/model.safetensors --threads 16 --windows 25,50 --kernel
                                                         on a machine with 16 processors (five minutes)
    bench/swept_matrices.py --quick                      does it work at all (a minute)
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

import comparison
import engine_runs
import llama_runs
import machine
import throttle
from comparison import number
from engine_runs import ROOT, WEIGHTPAGER, say, tool_output
from python_vs_mmap import CASES, Case, bad_runs, check, plan_of, run_resident

READS_PROMISED, CEILING_PROMISED, FIRST_PASS_PROMISED = 1.03, 0.95, 1.1
PYTORCH = "PyTorch, safetensors"


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "1024MiB", "320 MiB, PyTorch alone, two windows, 1 and 4 threads",
                                        threads=comparison.whole_numbers)
    parser.set_defaults(threads="1,2,4,16", repeats=1)
    parser.add_argument("--model", type=pathlib.Path, help="PyTorch alone, on this .safetensors file")
    parser.add_argument("--only", default="", metavar="TEXT", help="engines with this in their name")
    parser.add_argument("--windows", type=comparison.whole_numbers, default="12,25,50,72", metavar="PERCENT,…",
                        help="of the model (default %(default)s)")
    parser.add_argument("--passes", type=int, default=7, help="per run; the first two are not counted")
    parser.add_argument("--kernel", action="store_true", help="the kernel's mmap, too")
    throttle.add_option(parser)
    options = comparison.parse(parser, "passes", {"size": "320MiB", "only": PYTORCH, "repeats": 1, "passes": 5,
                                                  "windows": [25, 50], "threads": [1, 4]})
    throttle.check_option(parser, options)
    if options.model:
        options.only = PYTORCH
    return options


def python_program():
    """A machine that has PyTorch needs none of ours."""
    try:
        import safetensors, torch  # noqa: E401, F401
        return sys.executable
    except ImportError:
        return tool_output(ROOT / "tools/scripts/python_engines.sh", "--python")


class PythonEngine(Case):
    def resident(self):
        return run_resident(self.command, f"swept_matrices: {self.name}")

    def plan(self, percent, resident):
        return plan_of(percent, resident)


class LlamaEngine:
    """llama.cpp, whose runs say what those of Python engines say."""

    name = "llama.cpp"

    def __init__(self, options):
        self.file = llama_runs.made_model(f"llama-{options.size}-f16.gguf", "--arch", "llama", "--size",
                                          options.size, "--type", "f16")
        self._engine = llama_runs.Engine(self.file, argparse.Namespace(tokens=options.passes, threads=options.threads))

    def resident(self):
        self._engine.resident()  # fills the page cache
        return self._as_passes(self._engine.resident())

    def plan(self, percent, resident):
        return engine_runs.plan_of(percent, resident["model_mapped_bytes"], resident["rss_own_bytes"]) | {"runs": {}}

    def kernel(self, plan):
        return self._as_passes(self._engine.kernel(plan))

    def weightpager(self, plan):
        return self._as_passes(self._engine.weightpager(plan))

    def _as_passes(self, run):
        """The first pass is the prompt."""
        if "invalid" in run:
            return run
        return run | {"digest": run["tokens"], "pass_s": [run["first_token_s"], *run["token_s"]],
                      "model_mapped_bytes": self.file.stat().st_size}


def engines(options):
    """Each engine with each number of threads."""
    python = python_program()
    for name in [*CASES, LlamaEngine.name]:
        if options.only.lower() not in name.lower():
            continue
        for threads in options.threads:
            given = argparse.Namespace(**{**vars(options), "threads": threads})
            if name == LlamaEngine.name:
                yield threads, LlamaEngine(given)
            else:
                yield threads, PythonEngine(name, python, given, options.model and options.model.parent)


def disk_bandwidth(file, drive_speed):
    """Bytes per second of direct reads: by fio, or by weightpager's own measurement where there is no fio."""
    if shutil.which("fio"):
        return throttle.lasting(machine.direct_bandwidth(file), drive_speed)
    with tempfile.TemporaryDirectory() as folder:
        disk = pathlib.Path(folder) / "disk.json"
        tool_output(WEIGHTPAGER, "bench", "disk", file, "--json", disk)
        return throttle.lasting(json.loads(disk.read_text())["bytes_per_s"], drive_speed)


def counted(run):
    """Of passes from the third on: seconds, and bytes read. Means, because a throttled drive reads in slices of 0.1 s,
    of which a single pass takes one more or less."""
    return statistics.fmean(run["pass_s"][2:]), statistics.fmean(run["pass_read_bytes"][2:])


def measure_starts(engine, plan, resident, drive_speed):
    """A start that knows nothing of the engine, and one that knows what the first has learned."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for arm in ("first start", "weightpager"):
            plan["disk_bytes_per_s"].append(disk_bandwidth(engine.file, drive_speed))
            run = engine.weightpager(plan)
            check(run, "weightpager", resident)
            plan["runs"].setdefault(arm, []).append(run)
        del os.environ["XDG_CACHE_HOME"]
    plan["disk_bytes_per_s"].append(disk_bandwidth(engine.file, drive_speed))


def measure_window(engine, resident, percent, options):
    plan = engine.plan(percent, resident) | {"disk_bytes_per_s": []}
    for _ in range(options.repeats):
        if options.kernel:
            run = engine.kernel(plan)
            check(run, "kernel", resident)
            plan["runs"].setdefault("kernel", []).append(run)
        measure_starts(engine, plan, resident, options.drive_speed)
    return plan


def first_pass_ratio(run, plan):
    unfilled_bytes = max(0, plan["window_bytes"] - run["load_read_bytes"])
    return run["pass_read_bytes"][0] / max(1, counted(run)[1] + unfilled_bytes)


def evaluate(plan, resident):
    good = {arm: [run for run in runs if "invalid" not in run] for arm, runs in plan["runs"].items()}
    for arm, runs in good.items():
        plan[f"{arm}_s"] = machine.median([counted(run)[0] for run in runs])
        plan[f"{arm}_bytes"] = machine.median([counted(run)[1] for run in runs])
    plan["ring_bytes"] = max((process["ring_bytes"] for run in plan["runs"]["weightpager"] if run.get("pager")
                              for process in run["pager"]["processes"]), default=None)
    model_bytes, disk = resident["model_mapped_bytes"], machine.median(plan["disk_bytes_per_s"])
    plan["ceiling_s"] = max(counted(resident)[0], (model_bytes - plan["window_bytes"]) / disk)
    ours, read = plan["weightpager_s"], plan["weightpager_bytes"]
    plan["of_ceiling"] = plan["ceiling_s"] / ours if ours else None
    allowed = model_bytes - plan["window_bytes"] + (plan["ring_bytes"] or 0)
    plan["reads_ratio"] = read / allowed if read else None
    plan["first_pass_ratio"] = machine.median([first_pass_ratio(run, plan) for run in good["weightpager"]])
    plan["faster"] = plan["kernel_s"] / ours if ours and plan.get("kernel_s") else None


def row(result, plan):
    read = plan["weightpager_bytes"]
    return (f"| {result['engine']} | {result['threads']} | {plan['percent']} % "
            f"| {number(counted(result['resident'])[0], 3)} | {number(plan.get('kernel_s'), 3)} "
            f"| {number(plan['weightpager_s'], 3)} | {number(plan['faster'])} | {number(plan['ceiling_s'], 3)} "
            f"| {number(plan['of_ceiling'])} | {number(read and read / 2**30)} | {number(plan['reads_ratio'])} "
            f"| {number(plan['first_pass_ratio'])} | {', '.join(bad_runs(plan))} |")


def worst(plans, key, choose):
    return choose((plan[key] for plan in plans if plan[key]), default=None)


def markdown(report):
    options = report["options"]
    lines = [
        f"{comparison.opening(report)}, load average at the start {report['machine']['load_average']:.1f}. "
        f"{options['repeats']} × {options['passes']} passes. "
        + (f"The disk is throttled to {options['drive_speed']} MB/s. " if options["drive_speed"] else "") +
        "Of passes from the third on: seconds, and what is read "
        "against model - window + ring. First pass: what it reads over what these read and what is left to fill.",
        "",
        "| engine | threads | window | in memory | kernel mmap | weightpager | faster | ceiling | of the ceiling "
        "| read, GiB | of what is allowed | first pass | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    plans = [plan for result in report["results"] for plan in result["windows"]]
    lines += [row(result, plan) for result in report["results"] for plan in result["windows"]]
    promises = [("read of what is allowed", worst(plans, "reads_ratio", max), READS_PROMISED, False),
                ("first pass of a second start", worst(plans, "first_pass_ratio", max), FIRST_PASS_PROMISED, False),
                ("of the ceiling", worst(plans, "of_ceiling", min), CEILING_PROMISED)]
    return "\n".join(lines + ["", "; ".join(comparison.verdict(promises, report))])


def measure(options, build):
    report = None
    for threads, engine in engines(options):
        if report is None:
            report = comparison.new_report("swept_matrices", build, engine.file, options, "repeats", "passes", "drive_speed",
                                           "quick")
            report["results"] = []
        resident = engine.resident()
        result = {"engine": engine.name, "file": engine.file.name, "model_bytes": engine.file.stat().st_size,
                  "threads": threads, "resident": resident, "windows": []}
        report["results"].append(result)
        for percent in options.windows:
            plan = measure_window(engine, resident, percent, options)
            evaluate(plan, resident)
            result["windows"].append(plan)
            say(f"  {engine.name}, {threads} threads, {percent} %: {number(plan['weightpager_s'], 3)} s a pass, "
                f"{number(plan['of_ceiling'])} of the ceiling, reads {number(plan['reads_ratio'])}, first pass "
                f"{number(plan['first_pass_ratio'])} {', '.join(bad_runs(plan))}")
    if report is None:
        raise SystemExit(f"swept_matrices: no engine has '{options.only}' in its name: "
                         f"{', '.join([*CASES, LlamaEngine.name])}")
    return report


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    comparison.warn_if_busy()
    with throttle.steady(options, options.model or engine_runs.CACHE):
        report = measure(options, build)
    comparison.publish(report, markdown(report), options)


if __name__ == "__main__":
    main()
