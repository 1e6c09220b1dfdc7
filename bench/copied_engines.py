#!/usr/bin/env python3
"""Released engines that read their weights into memory of their own, convert them, or copy them into another layout:
with that memory in a weightpager window (`run --spill`), against the kernel's swap.

Both arms run the same program (bench/engines) on the same model inside the same memory cgroup: window + what the engine
needs for itself (measured with everything in memory) + 64 MiB. The kernel's arm may swap, to a file on the disk that
the spill file is on. The arms take turns, and medians count: of the passes after the first in a run, then of the
runs. At 110 % everything fits, and weightpager is compared with the engine alone, without a limit.

How fast could it be? A pass cannot beat the computation with everything in memory, nor the disk that brings what the
window does not hold: ceiling = max(resident time, (held - window + ring) / direct-read bandwidth). A load that writes
cannot beat what it takes without a limit from a cold file, nor the disk: bytes written / direct-write bandwidth. Both
bandwidths are fio's, of reads before and behind each of weightpager's runs, of writes behind it. Where other machines
share the disk, what it gave is a guess; --drive-speed has it throttled to what it always gives, for both arms and for
fio (throttle.py; only what the kernel swaps out is not held to it). "read / least" is what the last passes read, over
held - window + ring; it is sound on a busy machine, too. Free memory is touched before each run (machine.warm_memory):
what a virtual machine's host takes for giving it would count as loading.

Writes bench/results/DATE-copied_engines.json and prints a Markdown table. A run is marked invalid, and not used, when
its output differs by one bit from the run with everything in memory, or the limit killed something.

    bench/copied_engines.py --repeats 1 --passes 10 --drive-speed 600
                                                   the table of docs/explanation/engines.md (half an hour; root)
    bench/copied_engines.py --quick                does it work at all (some minutes)
"""

import contextlib
import pathlib
import subprocess
import tempfile

import comparison
import engine_runs
import machine
import throttle
from comparison import number
from engine_runs import BUILD, CACHE, ROOT, say, tool_output
from python_vs_mmap import model_path

ENGINES = ROOT / "bench/engines"
FITS_PERCENT = 110
SWAP_PROMISED = {25: 3, 50: 4}
CEILING_PROMISED = 0.95
FITS_PROMISED = 0.98
LOAD_PROMISED = 1.15
# name: (program, options, how tools/scripts/lib/python_models.sh makes its model, which file is read, how many times
# the bytes of that file the engine holds)
PYTHON_CASES = {
    "torch.load without mmap": ("torch_load_mmap.py", ["--no-mmap"], "torch_checkpoint", "", 1),
    "safetensors.numpy": ("torch_safetensors.py", ["--numpy"], "bf16_llama", "model.safetensors", 1),
    "transformers, float32 from bfloat16": ("transformers_lm.py", ["--dtype", "float32"], "bf16_llama",
                                            "model.safetensors", 2),
    "ONNX Runtime, default prepacking": ("onnxruntime_external.py", [], "onnx_chain", ".data", 1),
    "CTranslate2": ("ctranslate2_lm.py", [], "ctranslate2_model", "model.bin", 1),
}
LLAMA_CASES = {f"llama.cpp, {kind}{', read' if more else ''}": (kind.lower(), more)
               for kind in ("Q4_0", "Q8_0", "F16") for more in ([], ["--no-mmap"])}


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "1024MiB", "320 MiB, each arm once")
    parser.add_argument("--windows", type=comparison.whole_numbers, default="25,50,110", metavar="PERCENT,…",
                        help="of what the engine holds (default %(default)s)")
    parser.add_argument("--passes", type=int, default=12, help="per run; the first is not counted")
    parser.add_argument("--only", default="", metavar="TEXT", help="engines with this in their name")
    throttle.add_option(parser)
    options = comparison.parse(parser, "passes", {"size": "320MiB", "repeats": 1, "passes": 6})
    throttle.check_option(parser, options)
    return options


class Case:
    """One engine on its model."""

    def __init__(self, name, file, held_bytes, command):
        self.name, self.file, self.held_bytes, self.command = name, file, held_bytes, [str(word) for word in command]

    def warm_memory(self):
        """The engine, the file's pages and the window find memory that is as warm in each run."""
        machine.warm_memory(self.held_bytes + self.file.stat().st_size + (1 << 30))

    def alone(self):
        self.warm_memory()
        return named_alike(engine_runs.run_alone(self.command))

    def swap(self, plan):
        self.warm_memory()
        return named_alike(engine_runs.run_limited(self.file, plan["limit_bytes"], self.command, swap=True))

    def weightpager(self, plan, folder):
        self.warm_memory()
        return named_alike(engine_runs.run_in_window(self.file, plan["limit_bytes"], plan["window_bytes"],
                                                     self.command, spill=folder))


def named_alike(run):
    """What llama.mjs says in the words of measured.py: a token is a pass, the prompt the first one."""
    if "token_s" in run:
        run.update({"digest": run["tokens"], "pass_s": [run["first_token_s"], *run["token_s"]],
                    "pass_s_median": run["token_s_median"]})
    return run


def python_case(name, python, options):
    program, extra, maker, read, times = PYTHON_CASES[name]
    model = model_path(maker, options.size)
    file = model.with_name(model.name + read) if read.startswith(".") else model / read
    given = file if program == "torch_safetensors.py" else model
    command = [python, ENGINES / program, "--model", given, "--passes", options.passes,
               "--threads", options.threads, *extra]
    return Case(name, file, file.stat().st_size * times, command)


def llama_case(name, node, options):
    kind, extra = LLAMA_CASES[name]
    script = f"source tools/scripts/lib/common.sh && source tools/scripts/lib/engine.sh && make_model {options.size} {kind}"
    file = pathlib.Path(tool_output("bash", "-c", f"cd {ROOT} && {script}"))
    command = [node, ENGINES / "llama.mjs", "--model", file, "--tokens", options.passes, "--threads", options.threads,
               *extra]
    return Case(name, file, file.stat().st_size, command)


def darknet_case(options):
    """The program and the network, or nothing where Debian's Darknet is missing."""
    script = (f"cd {ROOT} && source tools/scripts/lib/common.sh && source tools/scripts/lib/engine.sh && "
              "source tools/scripts/lib/darknet.sh && find_darknet && echo $DARKNET_PASSES && darknet_network")
    found = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        say("Debian's Darknet is left out: tools/install.sh --peers")
        return []
    program, folder = (pathlib.Path(line) for line in found.stdout.split())
    file = folder / "network.weights"
    return [Case("Darknet", file, file.stat().st_size, [program, folder / "network.cfg", file, options.passes])]


def cases_of(options):
    def wanted(name):
        return options.only.lower() in name.lower()

    python = tool_output(ROOT / "tools/scripts/python_engines.sh", "--python")
    node = tool_output(ROOT / "tools/scripts/engine.sh", "--node")
    cases = [python_case(name, python, options) for name in PYTHON_CASES if wanted(name)]
    cases += darknet_case(options) if wanted("Darknet") else []
    cases += [llama_case(name, node, options) for name in LLAMA_CASES if wanted(name)]
    if not cases:
        raise SystemExit(f"copied_engines: no engine has '{options.only}' in its name")
    return cases


def run_resident(case):
    """Everything is in memory, but for the first load, which reads the file from the disk as a window's does."""
    machine.drop_page_cache(case.file)
    cold, resident = case.alone(), case.alone()
    for run in (cold, resident):
        if "invalid" in run:
            raise SystemExit(f"{case.name}: {run['invalid']}, with everything in memory and no limit: the lines above "
                             "say why")
    return resident | {"cold_load_s": cold["load_s"]}


def check(run, resident):
    if "invalid" in run:
        return
    if run["digest"] != resident["digest"]:
        run["invalid"] = "output differs"
    elif (run.get("group") or {}).get("oom_kills"):
        run["invalid"] = "the limit killed something"
    elif any(process["read_errors"] for process in (run.get("pager") or {}).get("processes", [])):
        run["invalid"] = "reads failed"


def run_weightpager(case, plan, folder, drive_speed):
    before = machine.direct_bandwidth(case.file)
    run = case.weightpager(plan, folder)
    read = (before + machine.direct_bandwidth(case.file)) / 2
    written = machine.direct_write_bandwidth(folder, min(case.held_bytes, 1 << 30))
    run["direct_bytes_per_second"] = throttle.lasting(read, drive_speed)
    run["direct_write_bytes_per_second"] = throttle.lasting(written, drive_speed)
    return run


def arms_of(case, plan, folder, drive_speed):
    """What weightpager is compared with, and weightpager."""
    other = ("alone", case.alone) if plan["percent"] >= 100 else ("swap", lambda: case.swap(plan))
    return [other, ("weightpager", lambda: run_weightpager(case, plan, folder, drive_speed))]


def plan_of(percent, case, resident):
    # Of what is mapped and copied, too, the copies alone have to stay.
    own_bytes = max(resident["rss_anon_bytes"] - case.held_bytes, 64 << 20)
    return engine_runs.plan_of(percent, case.held_bytes, own_bytes) | {"runs": {}}


def measure(cases, options, folder):
    """Interleaves the arms: each round goes over all engines and windows, the arms take turns to be first."""
    results = []
    for case in cases:
        resident = run_resident(case)
        results.append({"engine": case.name, "file": case.file.name, "held_bytes": case.held_bytes,
                        "resident": resident,
                        "windows": [plan_of(percent, case, resident) for percent in options.windows]})
    for repeat in range(options.repeats):
        say(f"round {repeat + 1} of {options.repeats}")
        for case, result in zip(cases, results):
            for plan in result["windows"]:
                arms = arms_of(case, plan, folder, options.drive_speed)
                for arm, run_arm in arms if repeat % 2 == 0 else reversed(arms):
                    run = run_arm()
                    check(run, result["resident"])
                    plan["runs"].setdefault(arm, []).append(run)
                    say(f"  {case.name}, {plan['percent']} %, {arm}: "
                        f"{run.get('invalid') or run['pass_s_median']} s per pass")
    return results


def process_of(run):
    return run["pager"]["processes"][0]


def least_read_bytes(run, plan, result):
    """What a pass cannot do without: what the window does not keep. Its ring, through which is read, keeps nothing."""
    kept = plan["window_bytes"] - process_of(run)["ring_bytes"]
    return result["held_bytes"] - kept


def ceiling_of(run, plan, result):
    compute_s = result["resident"]["pass_s_median"]
    if plan["percent"] >= 100:
        return compute_s / run["pass_s_median"]
    read_s = least_read_bytes(run, plan, result) / run["direct_bytes_per_second"]
    return max(compute_s, read_s) / run["pass_s_median"]


def load_over_least(run, result):
    written_s = process_of(run)["spill_written_bytes"] / run["direct_write_bytes_per_second"]
    return run["load_s"] / max(result["resident"]["cold_load_s"], written_s)


def evaluate(plan, result):
    """Medians of the valid runs."""
    valid = {arm: [run for run in runs if "invalid" not in run] for arm, runs in plan["runs"].items()}
    for arm, runs in valid.items():
        plan[f"{arm}_s"] = machine.median([run["pass_s_median"] for run in runs])
    ours = plan["weightpager_s"]
    theirs = plan.get("alone_s", plan.get("swap_s"))
    plan["ratio"] = theirs / ours if ours and theirs else None
    runs = valid["weightpager"]
    plan["of_ceiling"] = machine.median([ceiling_of(run, plan, result) for run in runs])
    plan["load_s"] = machine.median([run["load_s"] for run in runs])
    plan["load_over_least"] = machine.median([load_over_least(run, result) for run in runs])
    plan["written_bytes"] = machine.median([process_of(run)["spill_written_bytes"] for run in runs])
    plan["read_over_least"] = None
    if plan["percent"] < 100:
        plan["read_over_least"] = machine.median(
            [machine.median(run["pass_read_bytes"][-2:]) / least_read_bytes(run, plan, result) for run in runs
             if "pass_read_bytes" in run])


def notes(plan, report):
    percent = plan["percent"]
    wanted = [("load", plan["load_over_least"], LOAD_PROMISED, False)]
    if percent >= 100:
        wanted.append(("ratio", plan["ratio"], FITS_PROMISED, True))
    else:
        wanted += [("ratio", plan["ratio"], SWAP_PROMISED.get(percent, 1), True),
                   ("ceiling", plan["of_ceiling"], CEILING_PROMISED, True)]
    bad = sorted({f"{arm}: {run['invalid']}" for arm, runs in plan["runs"].items() for run in runs
                  if "invalid" in run})
    return ", ".join(comparison.verdict(wanted, report) + bad)


def markdown(report):
    facts, options = report["machine"], report["options"]
    lines = [
        f"{comparison.opening(report)}, load average at the start {facts['load_average']:.1f}. Models of "
        f"{options['size']}, {options['repeats']} × {options['passes']} passes, {options['threads']} threads. Limit: "
        "window + the engine's own + 64 MiB." +
        (f" The disk is throttled to {options['drive_speed']} MB/s." if options["drive_speed"] else ""),
        "",
        "| engine | window | in memory s/pass | swap s/pass | weightpager s/pass | ratio | of ceiling | read / least "
        "| load s | load / least | written GB | promised |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in report["engines"]:
        for plan in result["windows"]:
            in_memory = plan.get("alone_s") or result["resident"]["pass_s_median"]
            written = plan["written_bytes"]
            lines.append(
                f"| {result['engine']} | {plan['percent']} % | {number(in_memory, 3)} | {number(plan.get('swap_s'), 3)} "
                f"| {number(plan['weightpager_s'], 3)} | {number(plan['ratio'])} | {number(plan['of_ceiling'])} "
                f"| {number(plan['read_over_least'])} | {number(plan['load_s'], 1)} "
                f"| {number(plan['load_over_least'])} | {number(None if written is None else written / 1e9)} "
                f"| {notes(plan, report)} |")
    return "\n".join(lines)


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    if not build["optimised"]:
        raise SystemExit(f"copied_engines: {BUILD} is a {build['build_type'] or 'plain'} or sanitizer build: "
                         "cmake --preset release && cmake --build --preset release")
    cases = cases_of(options)
    comparison.warn_if_busy()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=CACHE, prefix="spill."))
        stack.enter_context(machine.swap_file(CACHE, 2 * max(case.held_bytes for case in cases) + (1 << 30)))
        stack.enter_context(throttle.steady(options, CACHE))
        report = comparison.new_report("copied_engines", build, cases[0].file, options, "size", "repeats", "passes",
                                       "threads", "drive_speed", "quick")
        report["engines"] = measure(cases, options, folder)
    for result in report["engines"]:
        for plan in result["windows"]:
            evaluate(plan, result)
    comparison.publish(report, markdown(report), options)


if __name__ == "__main__":
    main()
