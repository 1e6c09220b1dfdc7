#!/usr/bin/env python3
"""Released Python engines with their weights in a weightpager window, against the kernel's mmap; transformers also
against accelerate's disk offload, which is what its users have for models larger than memory.

All arms run the same program (bench/engines) on the same model inside the same memory cgroup: window + what the
engine needs for itself (measured with everything in memory) + 64 MiB. They take turns, each starts with the file
out of the page cache, and medians count: of the passes after the first in a run, then of the runs.

Writes bench/results/DATE-python_vs_mmap.json and prints a Markdown table. A run is marked invalid, and not used,
when its output differs by one bit from the run with everything in memory, or the limit killed it. Accelerate
computes with copies of the weights and may round differently: its output is compared, and only reported.

    bench/python_vs_mmap.py --readahead 8192 --size 1024MiB --repeats 3 --passes 4 --windows 25,50
                                                   the table of docs/explanation/benchmarks.md (a quarter of an hour)
    bench/python_vs_mmap.py --quick                does it work at all (a few minutes)
"""

import os
import pathlib
import subprocess
import tempfile

import comparison
import engine_runs
import machine
from comparison import number
from engine_runs import BUILD, ROOT, say, tool_output

ENGINES = ROOT / "bench/engines"
# name: (program, options, how tools/scripts/lib/python_models.sh makes its model, which file is mapped, --match)
CASES = {
    "PyTorch, safetensors": ("torch_safetensors.py", [], "bf16_llama", "model.safetensors", "*.safetensors"),
    "PyTorch, torch.load(mmap=True)": ("torch_load_mmap.py", [], "torch_checkpoint", "", "*.pt"),
    "transformers": ("transformers_lm.py", [], "bf16_llama", "model.safetensors", "*.safetensors"),
    "ONNX Runtime, prepacked on disk": ("onnxruntime_external.py", [], "prepacked_onnx_chain", ".data",
                                        "*.onnx.data"),
    "ONNX Runtime, no prepacking": ("onnxruntime_external.py", ["--no-prepacking"], "onnx_chain", ".data",
                                    "*.onnx.data"),
}
OFFLOAD_PROMISED = 10


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "2048MiB", "320 MiB, each arm once")
    parser.add_argument("--windows", type=comparison.whole_numbers, default="25,50", metavar="PERCENT,…",
                        help="of the model (default %(default)s)")
    parser.add_argument("--passes", type=int, default=5, help="per run; the first is not counted")
    parser.add_argument("--only", default="", metavar="TEXT", help="engines with this in their name")
    parser.add_argument("--readahead", type=int, metavar="KIB", help="set the disk's for this run (root)")
    return comparison.parse(parser, "passes", {"size": "320MiB", "repeats": 1, "passes": 3})


def model_path(maker, size):
    script = f"source tools/scripts/lib/common.sh && source tools/scripts/lib/engine.sh && source tools/scripts/lib/python_models.sh && " \
             f"find_python && {maker}"
    return pathlib.Path(subprocess.run(["bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                                       check=True, env={**os.environ, "PYTHON_MODEL_SIZE": size}
                                       ).stdout.strip().splitlines()[-1])


class Case:
    """One engine on its model, alone or inside a limit."""

    def __init__(self, name, python, options, model=None):
        """`model` is there already; otherwise one of options.size is made."""
        program, extra, maker, mapped, self.match = CASES[name]
        self.name = name
        model = model or model_path(maker, options.size)
        self.file = model.with_name(model.name + mapped) if mapped.startswith(".") else model / mapped
        # transformers is given the folder, the others the file.
        given = self.file if program == "torch_safetensors.py" else model
        self.command = [python, str(ENGINES / program), "--model", str(given), "--passes", str(options.passes),
                        "--threads", str(options.threads), *extra]

    def kernel(self, plan):
        return engine_runs.run_limited(self.file, plan["limit_bytes"], self.command)

    def offload(self, plan):
        with tempfile.TemporaryDirectory() as folder:
            return engine_runs.run_limited(self.file, plan["limit_bytes"], [*self.command, "--offload", folder])

    def weightpager(self, plan):
        return engine_runs.run_in_window(self.file, plan["limit_bytes"], plan["window_bytes"], self.command,
                                         self.match)


def plan_of(percent, resident):
    """The window is a share of what the engine maps: prepacked ONNX files hold more than that."""
    # Anonymous memory alone: pages of libraries are in the page cache already, on another group's account, and
    # counted here would make room for weights.
    own_bytes = resident["rss_anon_bytes"] - resident["model_written_bytes"]
    return engine_runs.plan_of(percent, resident["model_mapped_bytes"], own_bytes) | {"runs": {}}


def arms_of(case):
    arms = {"kernel": case.kernel, "weightpager": case.weightpager}
    if case.name == "transformers":
        arms["offload"] = case.offload
    return arms


def run_resident(command, name):
    engine_runs.run_alone(command)  # fills the page cache
    resident = engine_runs.run_alone(command)
    if "invalid" in resident:
        raise SystemExit(f"{name}: {resident['invalid']}, with everything in memory and no limit: the lines above say "
                         "why")
    return resident


def check(run, arm, resident):
    if "invalid" in run:
        return
    run["same_output"] = run["digest"] == resident["digest"]
    if not run["same_output"] and arm != "offload":
        run["invalid"] = "output differs"
    if arm == "weightpager" and not any(process["read_bytes"] for process in run["pager"]["processes"]):
        run["invalid"] = "nothing was paged"


def measure(cases, options):
    """Interleaves the arms: each round goes over all engines and windows, the arms take turns to be first."""
    results = []
    for case in cases:
        resident = run_resident(case.command, f"python_vs_mmap: {case.name}")
        results.append({"engine": case.name, "file": case.file.name, "resident": resident,
                        "windows": [plan_of(percent, resident) for percent in options.windows]})
    for repeat in range(options.repeats):
        say(f"round {repeat + 1} of {options.repeats}")
        for case, result in zip(cases, results):
            for plan in result["windows"]:
                arms = list(arms_of(case).items())
                for arm, run_arm in arms if repeat % 2 == 0 else reversed(arms):
                    run = run_arm(plan)
                    check(run, arm, result["resident"])
                    plan["runs"].setdefault(arm, []).append(run)
                    say(f"  {case.name}, {plan['percent']} %, {arm}: "
                        f"{run.get('invalid') or run['pass_s_median']} s per pass")
    return results


def evaluate(plan):
    for arm, runs in plan["runs"].items():
        plan[f"{arm}_s"] = machine.median([run["pass_s_median"] for run in runs if "invalid" not in run])
    ours = plan["weightpager_s"]
    for arm in ("kernel", "offload"):
        theirs = plan.get(f"{arm}_s")
        plan[f"{arm}_ratio"] = theirs / ours if ours and theirs else None


def bad_runs(plan):
    return sorted({f"{arm}: {run['invalid']}" for arm, runs in plan["runs"].items() for run in runs
                   if "invalid" in run})


def notes(plan):
    words = []
    if plan.get("offload_ratio") is not None:
        words.append(comparison.promise_words("offload", plan["offload_ratio"], OFFLOAD_PROMISED))
    return ", ".join(words + bad_runs(plan))


def markdown(report):
    facts, options = report["machine"], report["options"]
    lines = [
        f"{comparison.opening(report)}, readahead {facts['readahead_kib']} KiB, load average at the start "
        f"{facts['load_average']:.1f}. Models of {options['size']}, {options['repeats']} × {options['passes']} "
        f"passes, {options['threads']} threads. Limit: "
        f"window + the engine's own + 64 MiB. Seconds per pass.",
        "",
        "| engine | window | in memory | kernel mmap | weightpager | faster | accelerate offload | faster | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in report["engines"]:
        for plan in result["windows"]:
            lines.append(
                f"| {result['engine']} | {plan['percent']} % | {number(result['resident']['pass_s_median'], 3)} "
                f"| {number(plan['kernel_s'], 3)} | {number(plan['weightpager_s'], 3)} "
                f"| {number(plan['kernel_ratio'])} | {number(plan.get('offload_s'), 3)} "
                f"| {number(plan['offload_ratio'])} | {notes(plan)} |")
    return "\n".join(lines)


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    if not build["optimised"]:
        raise SystemExit(f"python_vs_mmap: {BUILD} is a {build['build_type'] or 'plain'} or sanitizer build: "
                         "cmake --preset release && cmake --build --preset release")
    python = tool_output(ROOT / "tools/scripts/python_engines.sh", "--python")
    cases = [Case(name, python, options) for name in CASES if options.only.lower() in name.lower()]
    if not cases:
        raise SystemExit(f"python_vs_mmap: no engine has '{options.only}' in its name: {', '.join(CASES)}")
    with machine.readahead(cases[0].file, options.readahead):
        report = comparison.new_report("python_vs_mmap", build, cases[0].file, options, "size", "repeats", "passes",
                                       "threads", "quick")
        report["engines"] = measure(cases, options)
    for result in report["engines"]:
        for plan in result["windows"]:
            evaluate(plan)
    comparison.publish(report, markdown(report), options, f"-readahead_{report['machine']['readahead_kib']}")


if __name__ == "__main__":
    main()
