#!/usr/bin/env python3
"""Released llama.cpp with its weights in a weightpager window, against the kernel's mmap.

Both arms run the same engine on the same F16 model inside the same memory cgroup: window + what the engine
needs for itself (measured) + 64 MiB. They take turns, each starts with the file out of the page cache, and
medians count. The kernel's arm keeps its weights mapped by bench/engines/keep_mapped.c: on CPUs with AMX
llama.cpp would otherwise copy them and be killed by the limit.

How fast could it be? A pass cannot beat the computation with everything in memory, nor the disk that brings
what the window does not hold: ceiling = max(resident time, (model - window + ring) / direct-read bandwidth).
The bandwidth is fio's, measured right before and right after each of weightpager's runs, because shared disks
change from minute to minute. "of ceiling" is the ceiling of a run over its time, the median of all runs.

A cold start has two yardsticks: the time that all bytes take at fio's speed, and the cold floor: what
bench/cold_read.cc needs to bring them into as much fresh memory as the window, right before. On a virtual
machine the host's memory can be slower than the disk. Before either starts, the memory that the last program
freed is given time to go back to the host, or the next would be handed it for nothing.

Writes bench/results/DATE-llama_vs_mmap.json and prints a Markdown table. A run is marked invalid, and not
used, when tokens differ, the limit killed something, a read failed, or the build is not optimised.

    bench/llama_vs_mmap.py --readahead 8192       the table of docs/benchmarks.md (half an hour)
    bench/llama_vs_mmap.py --quick                does it work at all (a minute or two)
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("WEIGHTPAGER_CACHE", pathlib.Path.home() / ".cache/weightpager"))
BUILD = ROOT / "build/release"
WEIGHTPAGER = BUILD / "tools/weightpager"
SLACK_BYTES = 64 << 20
RING_BYTES_ASSUMED = 128 << 20  # where weightpager's report does not say
FITS_PERCENT = 110
MEMORY_RETURNS_S = 5  # until a host has taken back what a guest freed (free page reporting: 2 s and more)

# What the project promises, at a readahead in KiB and a window in percent: mmap time / weightpager time.
RATIO_PROMISED = {(8192, 25): 1.6, (8192, 36): 1.9, (8192, 66): 3.3, (8192, 72): 4.0, (128, 36): 3.0}
CEILING_PROMISED = 0.95
CEILING_PROMISED_AT = (12, 25, 33, 50, 66)
FITS_PROMISED = 0.98
FIRST_TOKEN_PROMISED = 1.15


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def tool_output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="4200MiB", help="of the model (default %(default)s, 4.4 GB)")
    parser.add_argument("--windows", default="12,25,33,36,50,66,72,110", metavar="PERCENT,…",
                        help="of the model (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each arm at each window")
    parser.add_argument("--tokens", type=int, default=8, help="per run; the first is counted apart")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--readahead", type=int, metavar="KIB", help="set the disk's for this run (root)")
    parser.add_argument("--output", type=pathlib.Path, help="of the JSON report")
    parser.add_argument("--quick", action="store_true", help="512 MiB, windows of 25 and 110 %%, once")
    options = parser.parse_args()
    if options.quick:
        options.size, options.windows, options.repeats, options.tokens = "512MiB", "25,110", 1, 4
    options.windows = [int(percent) for percent in options.windows.split(",")]
    if options.tokens < 3 or options.repeats < 1:
        parser.error("at least 3 tokens and 1 repeat: medians need something to choose from")
    return options


class Engine:
    """llama.cpp on one model, alone or inside a limit."""

    def __init__(self, model, options):
        self.model = model
        node = tool_output(ROOT / "tools/engine.sh", "--node")
        self.keep_mapped = tool_output(ROOT / "tools/engine.sh", "--keep-mapped")
        self.command = [node, str(ROOT / "bench/engines/llama.mjs"), "--model", str(model),
                        "--tokens", str(options.tokens), "--threads", str(options.threads)]

    def resident(self):
        """Everything in the page cache, no limit."""
        return self._run(self._with_kernel_mmap())

    def kernel(self, limit_bytes):
        machine.drop_page_cache(self.model)
        return self._run_limited(limit_bytes, self._with_kernel_mmap())

    def weightpager(self, limit_bytes, window_mib):
        machine.drop_page_cache(self.model)
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "pager.json"
            run = self._run_limited(limit_bytes, [
                str(WEIGHTPAGER), "run", "-q", "--window", f"{window_mib}MiB", "--json", str(report), "--",
                *self.command])
            run["pager"] = json.loads(report.read_text()) if report.exists() else None
        return run

    def _with_kernel_mmap(self):
        return ["env", f"LD_PRELOAD={self.keep_mapped}", *self.command]

    def _run_limited(self, limit_bytes, command):
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "group.json"
            run = self._run([str(ROOT / "tools/lib/cgroup.sh"), "--limit", str(limit_bytes),
                             "--report", str(report), "--", *command])
            run["group"] = json.loads(report.read_text()) if report.exists() else None
        return run

    @staticmethod
    def _run(command):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = done.stdout.strip().splitlines()
        if done.returncode == 77:
            raise SystemExit(f"llama_vs_mmap: {lines[-1]}")
        if done.returncode != 0 or not lines:
            return {"invalid": f"the engine ended with {done.returncode}"}
        return json.loads(lines[-1])


def model_file(size):
    path = CACHE / "models" / f"llama-{size}-f16.gguf"
    if not path.exists():
        say(f"making a {size} model, once: {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([WEIGHTPAGER, "model", "make", "--arch", "llama", "--size", size, "--type", "f16",
                        "-o", part], check=True, stdout=sys.stderr)
        part.rename(path)
    return path


def build_facts():
    """What was measured, and whether such a build may be measured at all."""
    cache = machine.read_text(BUILD / "CMakeCache.txt")
    if cache is None or not WEIGHTPAGER.exists():
        raise SystemExit(f"{WEIGHTPAGER} is missing: "
                         "cmake --preset release && cmake --build --preset release")
    value = dict(re.findall(r"^(CMAKE_BUILD_TYPE|WP_SANITIZE):\w+=(.*)$", cache, re.MULTILINE))
    build_type = value.get("CMAKE_BUILD_TYPE", "")
    return {
        "commit": tool_output("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"),
        "build_type": build_type,
        "optimised": build_type in ("Release", "RelWithDebInfo") and not value.get("WP_SANITIZE"),
    }


def invalid_reason(run, expected_tokens, build):
    if run.get("invalid"):
        return run["invalid"]
    if not build["optimised"]:
        return f"a {build['build_type'] or 'plain'} or sanitizer build"
    if run["tokens"] != expected_tokens:
        return "tokens differ"
    if (run.get("group") or {}).get("oom_kills"):
        return "the limit killed something"
    if any(process["read_errors"] for process in (run.get("pager") or {}).get("processes", [])):
        return "reads failed"
    return None


def measure_resident(engine, repeats):
    say("everything in memory, no limit")
    engine.resident()  # fills the page cache
    runs = [engine.resident() for _ in range(repeats)]
    for run in runs:
        if "invalid" in run:
            raise SystemExit(f"llama_vs_mmap: {run['invalid']}, with everything in memory and no limit")
    return {
        "tokens": runs[0]["tokens"],
        "token_s": machine.median([run["token_s_median"] for run in runs]),
        "first_token_s": machine.median([run["first_token_s"] for run in runs]),
        "load_s": machine.median([run["load_s"] for run in runs]),
        "own_bytes": max(run["rss_own_bytes"] for run in runs),
        "runs": runs,
    }


def window_plan(percent, model_bytes, own_bytes):
    window_bytes = model_bytes * percent // 100 // machine.CHUNK_BYTES * machine.CHUNK_BYTES
    return {"percent": percent, "window_bytes": window_bytes,
            "limit_bytes": window_bytes + own_bytes + SLACK_BYTES, "kernel": [], "weightpager": []}


def cold_floor_s(engine, plan):
    window_bytes = min(plan["window_bytes"], engine.model.stat().st_size)
    return float(tool_output(BUILD / "bench/cold_read", engine.model, str(window_bytes >> 20)))


def run_weightpager(engine, plan):
    before = machine.direct_bandwidth(engine.model)
    time.sleep(MEMORY_RETURNS_S)
    floor_s = cold_floor_s(engine, plan)
    time.sleep(MEMORY_RETURNS_S)
    run = engine.weightpager(plan["limit_bytes"], plan["window_bytes"] >> 20)
    run["cold_floor_s"] = floor_s
    run["direct_bytes_per_second"] = (before + machine.direct_bandwidth(engine.model)) / 2
    return run


def run_pair(engine, plan, kernel_first):
    arms = {"kernel": lambda: engine.kernel(plan["limit_bytes"]),
            "weightpager": lambda: run_weightpager(engine, plan)}
    for arm in arms if kernel_first else reversed(arms):
        run = arms[arm]()
        plan[arm].append(run)
        say(f"  {plan['percent']:3d} % {arm:12s} {run.get('token_s_median', run.get('invalid'))} s per token")


def measure(engine, options, report):
    """Interleaves everything: each round goes over all windows, the arms take turns to be first."""
    report["resident"] = resident = measure_resident(engine, options.repeats)
    report["windows"] = [window_plan(percent, report["model"]["bytes"], resident["own_bytes"])
                         for percent in options.windows]
    for repeat in range(options.repeats):
        say(f"round {repeat + 1} of {options.repeats}")
        for plan in report["windows"]:
            run_pair(engine, plan, kernel_first=repeat % 2 == 0)
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
    for run in plan["kernel"] + plan["weightpager"]:
        run["invalid"] = invalid_reason(run, report["resident"]["tokens"], report["build"])
    valid = {arm: [run for run in plan[arm] if not run["invalid"]] for arm in ("kernel", "weightpager")}
    plan["ring_bytes"] = ring_bytes(plan["weightpager"])
    for run in valid["weightpager"]:
        run["ceiling_s"] = ceiling_s(plan, report, run)
    plan["ceiling_s"] = machine.median([run["ceiling_s"] for run in valid["weightpager"]])
    for arm, runs in valid.items():
        plan[f"{arm}_s"] = machine.median([run["token_s_median"] for run in runs])
    ours, kernel = plan["weightpager_s"], plan["kernel_s"]
    plan["ratio"] = kernel / ours if ours and kernel else None
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
    judged = [] if report["options"]["quick"] else promises(plan, report["machine"]["readahead_kib"])
    words = ["not judged on a small model"] if report["options"]["quick"] else []
    for what, measured, wanted, larger in judged:
        kept = measured is not None and (measured >= wanted if larger else measured <= wanted)
        words.append(f"{what} {'≥' if larger else '≤'} {wanted}: {'kept' if kept else '**missed**'}")
    bad = [run["invalid"] for run in plan["kernel"] + plan["weightpager"] if run["invalid"]]
    if bad:
        words.append(f"{len(bad)} invalid runs ({', '.join(sorted(set(bad)))})")
    return ", ".join(words)


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def markdown(report):
    facts, build, disk = report["machine"], report["build"], report["disk"]
    model, resident, options = report["model"], report["resident"], report["options"]
    lines = [
        f"{report['date']}, commit {build['commit']} ({build['build_type']}). Machine: kernel "
        f"{facts['kernel']}, {facts['cpus']} × {facts['cpu']}, {facts['memory_bytes'] / 1e9:.0f} GB, "
        f"{facts['filesystem']}, load average at the start {facts['load_average']:.1f}. Disk: direct reads "
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


def write_report(report, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    say(f"written: {path}")


def default_output(options, report):
    name = f"{report['date']}-llama_vs_mmap"
    if options.quick:
        return BUILD / f"{name}-quick.json"
    return ROOT / f"bench/results/{name}-readahead_{report['machine']['readahead_kib']}.json"


def main():
    options = parse_arguments()
    build = build_facts()
    model = model_file(options.size)
    engine = Engine(model, options)
    if os.getloadavg()[0] > 0.5:
        say(f"warning: load average {os.getloadavg()[0]:.1f}: something else runs here, figures will be off")
    date = datetime.date.today().isoformat()
    with machine.readahead(model, options.readahead):
        report = {
            "benchmark": "llama_vs_mmap", "date": date, "build": build, "machine": machine.facts(model),
            "model": {"file": model.name, "bytes": model.stat().st_size},
            "options": {"repeats": options.repeats, "tokens": options.tokens, "threads": options.threads,
                        "quick": options.quick},
        }
        measure(engine, options, report)
    for plan in report["windows"]:
        evaluate(plan, report)
    write_report(report, options.output or default_output(options, report))
    print(markdown(report))


if __name__ == "__main__":
    main()
