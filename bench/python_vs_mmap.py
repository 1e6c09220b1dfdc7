#!/usr/bin/env python3
"""Released Python engines with their weights in a weightpager window, against the kernel's mmap; transformers also
against accelerate's disk offload, which is what its users have for models larger than memory.

All arms run the same program (bench/engines) on the same model inside the same memory cgroup: window + what the
engine needs for itself (measured with everything in memory) + 64 MiB. They take turns, each starts with the file
out of the page cache, and medians count: of the passes after the first in a run, then of the runs.

Writes bench/results/DATE-python_vs_mmap.json and prints a Markdown table. A run is marked invalid, and not used,
when its output differs by one bit from the run with everything in memory, or the limit killed it. Accelerate
computes with copies of the weights and may round differently: its output is compared, and only reported.

    bench/python_vs_mmap.py --readahead 8192       the table of docs/engines.md (half an hour)
    bench/python_vs_mmap.py --quick                does it work at all (a few minutes)
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

import llama_vs_mmap
import machine
from llama_vs_mmap import BUILD, ROOT, SLACK_BYTES, WEIGHTPAGER, number, say, tool_output

ENGINES = ROOT / "bench/engines"
# name: (program, options, how tools/lib/python_models.sh makes its model, which file is mapped, --match)
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
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="2048MiB", help="of each model (default %(default)s)")
    parser.add_argument("--windows", default="25,50", metavar="PERCENT,…", help="of the model (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each arm at each window")
    parser.add_argument("--passes", type=int, default=5, help="per run; the first is not counted")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", metavar="TEXT", help="engines with this in their name")
    parser.add_argument("--readahead", type=int, metavar="KIB", help="set the disk's for this run (root)")
    parser.add_argument("--output", type=pathlib.Path, help="of the JSON report")
    parser.add_argument("--quick", action="store_true", help="320 MiB, each arm once")
    options = parser.parse_args()
    if options.quick:
        options.size, options.repeats, options.passes = "320MiB", 1, 3
    options.windows = [int(percent) for percent in options.windows.split(",")]
    if options.passes < 3 or options.repeats < 1:
        parser.error("at least 3 passes and 1 repeat: medians need something to choose from")
    return options


def model_path(maker, size):
    script = f"source tools/lib/common.sh && source tools/lib/engine.sh && source tools/lib/python_models.sh && " \
             f"find_python && {maker}"
    return pathlib.Path(subprocess.run(["bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                                       check=True, env={**os.environ, "PYTHON_MODEL_SIZE": size}
                                       ).stdout.strip().splitlines()[-1])


class Case:
    """One engine on its model, alone or inside a limit."""

    def __init__(self, name, python, options):
        program, extra, maker, mapped, self.match = CASES[name]
        self.name = name
        model = model_path(maker, options.size)
        self.file = model.with_name(model.name + mapped) if mapped.startswith(".") else model / mapped
        # transformers is given the folder, the others the file.
        given = self.file if program == "torch_safetensors.py" else model
        self.command = [python, str(ENGINES / program), "--model", str(given), "--passes", str(options.passes),
                        "--threads", str(options.threads), *extra]

    def resident(self):
        return self._run(self.command)

    def kernel(self, plan):
        return self._run_limited(plan, self.command)

    def offload(self, plan):
        with tempfile.TemporaryDirectory() as folder:
            return self._run_limited(plan, [*self.command, "--offload", folder])

    def weightpager(self, plan):
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "pager.json"
            run = self._run_limited(plan, [
                str(WEIGHTPAGER), "run", "-q", "--window", f"{plan['window_bytes'] >> 20}MiB", "--match", self.match,
                "--json", str(report), "--", *self.command])
            run["pager"] = json.loads(report.read_text()) if report.exists() else None
        return run

    def _run_limited(self, plan, command):
        machine.drop_page_cache(self.file)
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "group.json"
            run = self._run([str(ROOT / "tools/lib/cgroup.sh"), "--limit", str(plan["limit_bytes"]),
                             "--report", str(report), "--", *command])
            run["group"] = json.loads(report.read_text()) if report.exists() else None
        return run

    @staticmethod
    def _run(command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = done.stdout.strip().splitlines()
        if done.returncode == 77:
            raise SystemExit(f"python_vs_mmap: {lines[-1]}")
        if done.returncode != 0 or not lines:
            return {"invalid": f"the engine ended with {done.returncode}", "said": done.stderr[-2000:]}
        return json.loads(lines[-1])


def plan_of(percent, resident):
    """The window is a share of what the engine maps: prepacked ONNX files hold more than that."""
    window = resident["model_mapped_bytes"] * percent // 100 // machine.CHUNK_BYTES * machine.CHUNK_BYTES
    # Anonymous memory alone: pages of libraries are in the page cache already, on another group's account, and
    # counted here would make room for weights.
    own = resident["rss_anon_bytes"] - resident["model_written_bytes"]
    return {"percent": percent, "window_bytes": window, "limit_bytes": window + own + SLACK_BYTES, "runs": {}}


def arms_of(case):
    arms = {"kernel": case.kernel, "weightpager": case.weightpager}
    if case.name == "transformers":
        arms["offload"] = case.offload
    return arms


def prepare(case):
    case.resident()  # fills the page cache
    resident = case.resident()
    if "invalid" in resident:
        raise SystemExit(f"python_vs_mmap: {case.name}: {resident['invalid']}, with everything in memory and no limit: "
                         f"{resident['said']}")
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
        resident = prepare(case)
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


def notes(plan):
    words = []
    if plan.get("offload_ratio") is not None:
        kept = plan["offload_ratio"] >= OFFLOAD_PROMISED
        words.append(f"offload ≥ {OFFLOAD_PROMISED}: {'kept' if kept else '**missed**'}")
    bad = [f"{arm}: {run['invalid']}" for arm, runs in plan["runs"].items() for run in runs if "invalid" in run]
    return ", ".join(words + sorted(set(bad)))


def markdown(report):
    facts, build, options = report["machine"], report["build"], report["options"]
    lines = [
        f"{report['date']}, commit {build['commit']} ({build['build_type']}). Machine: kernel {facts['kernel']}, "
        f"{facts['cpus']} × {facts['cpu']}, {facts['memory_bytes'] / 1e9:.0f} GB, {facts['filesystem']}, readahead "
        f"{facts['readahead_kib']} KiB, load average at the start {facts['load_average']:.1f}. Models of "
        f"{options['size']}, {options['repeats']} × {options['passes']} passes, {options['threads']} threads. Limit: "
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


def default_output(options, report):
    name = f"{report['date']}-python_vs_mmap"
    if options.quick:
        return BUILD / f"{name}-quick.json"
    return ROOT / f"bench/results/{name}-readahead_{report['machine']['readahead_kib']}.json"


def main():
    options = parse_arguments()
    build = llama_vs_mmap.build_facts()
    if not build["optimised"]:
        raise SystemExit(f"python_vs_mmap: {BUILD} is a {build['build_type'] or 'plain'} or sanitizer build: "
                         "cmake --preset release && cmake --build --preset release")
    python = tool_output(ROOT / "tools/python_engines.sh", "--python")
    cases = [Case(name, python, options) for name in CASES if options.only.lower() in name.lower()]
    if not cases:
        raise SystemExit(f"python_vs_mmap: no engine has '{options.only}' in its name: {', '.join(CASES)}")
    report = {"benchmark": "python_vs_mmap", "date": datetime.date.today().isoformat(), "build": build,
              "options": {key: getattr(options, key) for key in ("size", "repeats", "passes", "threads", "quick")}}
    with machine.readahead(cases[0].file, options.readahead):
        report["machine"] = machine.facts(cases[0].file)
        report["engines"] = measure(cases, options)
    for result in report["engines"]:
        for plan in result["windows"]:
            evaluate(plan)
    llama_vs_mmap.write_report(report, options.output or default_output(options, report))
    print(markdown(report))


if __name__ == "__main__":
    main()
