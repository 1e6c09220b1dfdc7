"""Released llama.cpp on one model: alone, or inside a memory limit with the kernel's mmap or in a weightpager
window. What every comparison of the two needs.

Both arms run the same engine inside the same memory cgroup: window + what the engine needs for itself
(measured) + 64 MiB. Each starts with the file out of the page cache. The kernel's arm keeps its weights mapped
by bench/engines/keep_mapped.c: on CPUs with AMX llama.cpp would otherwise copy them and be killed by the limit.
A run is marked invalid, and not used, when tokens differ, the limit killed something, a read failed, or the
build is not optimised.
"""

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
MEMORY_RETURNS_S = 5  # until a host has taken back what a guest freed (free page reporting: 2 s and more)


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def tool_output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


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
            raise SystemExit(f"{lines[-1]}")
        if done.returncode != 0 or not lines:
            return {"invalid": f"the engine ended with {done.returncode}"}
        return json.loads(lines[-1])


def made_model(name, *arguments):
    """A synthetic model in the cache, made at its first use by `weightpager model make` with these arguments."""
    path = CACHE / "models" / name
    if not path.exists():
        say(f"making a model, once: {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([WEIGHTPAGER, "model", "make", *arguments, "-o", part], check=True, stdout=sys.stderr)
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


def warn_if_busy():
    if os.getloadavg()[0] > 0.5:
        say(f"warning: load average {os.getloadavg()[0]:.1f}: something else runs here, figures will be off")


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
            raise SystemExit(f"{run['invalid']}, with everything in memory and no limit")
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
    """What the least that any reader must do takes, just now (bench/cold_read.cc)."""
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


def take_medians(plan, expected_tokens, build):
    """Marks invalid runs; medians and the ratio of the others go into the plan. Returns these runs by arm."""
    for run in plan["kernel"] + plan["weightpager"]:
        run["invalid"] = invalid_reason(run, expected_tokens, build)
    valid = {arm: [run for run in plan[arm] if not run["invalid"]] for arm in ("kernel", "weightpager")}
    for arm, runs in valid.items():
        plan[f"{arm}_s"] = machine.median([run["token_s_median"] for run in runs])
    ours, kernel = plan["weightpager_s"], plan["kernel_s"]
    plan["ratio"] = kernel / ours if ours and kernel else None
    return valid


def invalid_words(plan):
    bad = [run["invalid"] for run in plan["kernel"] + plan["weightpager"] if run["invalid"]]
    return [f"{len(bad)} invalid runs ({', '.join(sorted(set(bad)))})"] if bad else []


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def write_report(report, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    say(f"written: {path}")
