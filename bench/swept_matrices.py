#!/usr/bin/env python3
"""PyTorch on a mapped safetensors file, by number of threads and window: how close a pass comes to what no pager can
beat, max(computing with everything in memory, (model - window) / disk), and how much of the model it reads.

A multiplication walks its matrix in as many places at once as it has threads, and the engine takes the matrices in
an order of its own. So this is the case that an order of chunks alone does not foresee. All arms run the same
program (bench/engines/torch_safetensors.py) in the same memory cgroup: window + what the engine needs for itself +
64 MiB; each starts with the file out of the page cache. The disk is measured beside each run. Passes from the third
on count, by their median; a run whose output differs by one bit from the run in memory is marked invalid.

Writes bench/results/DATE-swept_matrices.json and prints a Markdown table.

    bench/swept_matrices.py --passes 9                   the table of docs/explanation/benchmarks.md (five minutes)
    bench/swept_matrices.py --model DIR/model.safetensors --threads 16 --windows 25,50 --kernel
                                                         on a machine with 16 processors (five minutes)
    bench/swept_matrices.py --quick                      does it work at all (a minute)
"""

import json
import pathlib
import shutil
import sys
import tempfile

import comparison
import engine_runs
import machine
from comparison import number
from engine_runs import ROOT, WEIGHTPAGER, say, tool_output
from python_vs_mmap import bad_runs, check, model_path, plan_of, run_resident

READS_PROMISED, CEILING_PROMISED = 1.03, 0.95


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "4096MiB", "320 MiB, two windows, 1 and 4 threads",
                                        threads=comparison.whole_numbers)
    parser.set_defaults(threads="1,2,4,16", repeats=1)
    parser.add_argument("--model", type=pathlib.Path, help="a .safetensors file (default: one is made)")
    parser.add_argument("--windows", type=comparison.whole_numbers, default="12,25,50,72", metavar="PERCENT,…",
                        help="of the model (default %(default)s)")
    parser.add_argument("--passes", type=int, default=7, help="per run; the first two are not counted")
    parser.add_argument("--kernel", action="store_true", help="the kernel's mmap, too")
    return comparison.parse(parser, "passes", {"size": "320MiB", "repeats": 1, "passes": 5, "windows": [25, 50],
                                               "threads": [1, 4]})


def disk_bandwidth(file):
    """Bytes per second of direct reads: by fio, or by weightpager's own measurement where there is no fio."""
    if shutil.which("fio"):
        return machine.direct_bandwidth(file)
    with tempfile.TemporaryDirectory() as folder:
        disk = pathlib.Path(folder) / "disk.json"
        tool_output(WEIGHTPAGER, "bench", "disk", file, "--json", disk)
        return json.loads(disk.read_text())["bytes_per_s"]


def counted(run):
    """Of passes from the third on: seconds, and bytes read."""
    return machine.median(run["pass_s"][2:]), machine.median(run["pass_read_bytes"][2:])


def measure_place(file, command, resident, percent, options):
    """One window with one number of threads: all arms, in turns."""
    plan = plan_of(percent, resident) | {"disk_bytes_per_s": []}
    arms = {"weightpager": lambda: engine_runs.run_in_window(file, plan["limit_bytes"], plan["window_bytes"], command,
                                                             "*.safetensors")}
    if options.kernel:
        arms["kernel"] = lambda: engine_runs.run_limited(file, plan["limit_bytes"], command)
    for _ in range(options.repeats):
        plan["disk_bytes_per_s"].append(disk_bandwidth(file))
        for arm, run_arm in arms.items():
            run = run_arm()
            check(run, arm, resident)
            plan["runs"].setdefault(arm, []).append(run)
            if arm == "weightpager":
                plan["disk_bytes_per_s"].append(disk_bandwidth(file))
    return plan


def evaluate(plan, resident):
    for arm, runs in plan["runs"].items():
        good = [run for run in runs if "invalid" not in run]
        plan[f"{arm}_s"] = machine.median([counted(run)[0] for run in good])
        plan[f"{arm}_bytes"] = machine.median([counted(run)[1] for run in good])
    plan["ring_bytes"] = max((process["ring_bytes"]
                              for run in plan["runs"]["weightpager"] if run.get("pager")
                              for process in run["pager"]["processes"]), default=None)
    model_bytes, disk = resident["model_mapped_bytes"], machine.median(plan["disk_bytes_per_s"])
    plan["ceiling_s"] = max(counted(resident)[0], (model_bytes - plan["window_bytes"]) / disk)
    ours, read = plan["weightpager_s"], plan["weightpager_bytes"]
    plan["of_ceiling"] = plan["ceiling_s"] / ours if ours else None
    allowed = model_bytes - plan["window_bytes"] + (plan["ring_bytes"] or 0)
    plan["reads_ratio"] = read / allowed if read else None
    plan["faster"] = plan["kernel_s"] / ours if ours and plan.get("kernel_s") else None


def markdown(report):
    options = report["options"]
    lines = [
        f"{comparison.opening(report)}, load average at the start {report['machine']['load_average']:.1f}. "
        f"{report['file']}, {report['model_bytes'] / 2**30:.2f} GiB, {options['repeats']} × {options['passes']} passes. "
        "Of passes from the third on: seconds, and what is read against model - window + ring.",
        "",
        "| threads | window | in memory | kernel mmap | weightpager | faster | ceiling | of the ceiling | read, GiB "
        "| of what is allowed | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in report["threads"]:
        for plan in result["windows"]:
            read = plan["weightpager_bytes"]
            lines.append(
                f"| {result['threads']} | {plan['percent']} % | {number(counted(result['resident'])[0], 3)} "
                f"| {number(plan.get('kernel_s'), 3)} | {number(plan['weightpager_s'], 3)} | {number(plan['faster'])} "
                f"| {number(plan['ceiling_s'], 3)} | {number(plan['of_ceiling'])} "
                f"| {number(read and read / 2**30)} | {number(plan['reads_ratio'])} | {', '.join(bad_runs(plan))} |")
    plans = [plan for result in report["threads"] for plan in result["windows"]]
    worst_reads = max((plan["reads_ratio"] for plan in plans if plan["reads_ratio"]), default=None)
    worst_time = min((plan["of_ceiling"] for plan in plans if plan["of_ceiling"]), default=None)
    promises = [("read of what is allowed", worst_reads, READS_PROMISED, False),
                ("of the ceiling", worst_time, CEILING_PROMISED)]
    return "\n".join(lines + ["", "; ".join(comparison.verdict(promises, report))])


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    comparison.warn_if_busy()
    file = options.model or model_path("bf16_llama", options.size) / "model.safetensors"
    # A machine that has PyTorch needs none of ours.
    try:
        import safetensors, torch  # noqa: E401, F401
        python = sys.executable
    except ImportError:
        python = tool_output(ROOT / "tools/scripts/python_engines.sh", "--python")
    report = comparison.new_report("swept_matrices", build, file, options, "repeats", "passes", "quick")
    report |= {"file": file.name, "model_bytes": file.stat().st_size, "threads": []}
    for threads in options.threads:
        command = [python, str(ROOT / "bench/engines/torch_safetensors.py"), "--model", str(file), "--passes",
                   str(options.passes), "--threads", str(threads)]
        resident = run_resident(command, f"swept_matrices: {threads} threads")
        result = {"threads": threads, "resident": resident, "windows": []}
        for percent in options.windows:
            plan = measure_place(file, command, resident, percent, options)
            evaluate(plan, resident)
            result["windows"].append(plan)
            say(f"  {threads} threads, {percent} %: {number(plan['weightpager_s'], 3)} s a pass, "
                f"{number(plan['of_ceiling'])} of the ceiling, reads {number(plan['reads_ratio'])} {', '.join(bad_runs(plan))}")
        report["threads"].append(result)
    comparison.publish(report, markdown(report), options)


if __name__ == "__main__":
    main()
