"""Released llama.cpp on one model, with the kernel's mmap or in a weightpager window: what every comparison of
the two needs.

Both arms run the same engine inside the same memory cgroup: window + what the engine needs for itself
(measured) + 64 MiB. The kernel's arm keeps its weights mapped by bench/engines/keep_mapped.c: on CPUs with AMX
llama.cpp would otherwise copy them and be killed by the limit. A run is marked invalid, and not used, when
tokens differ, the limit killed something, a read failed, or the build is not optimised.
"""

import subprocess
import sys
import time

import engine_runs
import machine
from engine_runs import BUILD, CACHE, ROOT, WEIGHTPAGER, say, tool_output

MEMORY_RETURNS_S = 5  # until a host has taken back what a guest freed (free page reporting: 2 s and more)


class Engine:
    """llama.cpp on one model, alone or inside a limit."""

    def __init__(self, model, options):
        self.model = model
        node = tool_output(ROOT / "tools/scripts/engine.sh", "--node")
        self.keep_mapped = tool_output(ROOT / "tools/scripts/engine.sh", "--keep-mapped")
        self.command = [node, str(ROOT / "bench/engines/llama.mjs"), "--model", str(model),
                        "--tokens", str(options.tokens), "--threads", str(options.threads)]

    def resident(self):
        """Everything in the page cache, no limit."""
        return engine_runs.run_alone(self._with_kernel_mmap())

    def kernel(self, plan):
        return engine_runs.run_limited(self.model, plan["limit_bytes"], self._with_kernel_mmap())

    def weightpager(self, plan):
        return engine_runs.run_in_window(self.model, plan["limit_bytes"], plan["window_bytes"], self.command)

    def _with_kernel_mmap(self):
        return ["env", f"LD_PRELOAD={self.keep_mapped}", *self.command]


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
    return engine_runs.plan_of(percent, model_bytes, own_bytes) | {"kernel": [], "weightpager": []}


def cold_floor_s(engine, plan):
    """What the least that any reader must do takes, just now (bench/cold_read.cc)."""
    window_bytes = min(plan["window_bytes"], engine.model.stat().st_size)
    return float(tool_output(BUILD / "bench/cold_read", engine.model, str(window_bytes >> 20)))


def run_weightpager(engine, plan):
    before = machine.direct_bandwidth(engine.model)
    time.sleep(MEMORY_RETURNS_S)
    floor_s = cold_floor_s(engine, plan)
    time.sleep(MEMORY_RETURNS_S)
    run = engine.weightpager(plan)
    run["cold_floor_s"] = floor_s
    run["direct_bytes_per_second"] = (before + machine.direct_bandwidth(engine.model)) / 2
    return run


def run_pair(engine, plan, kernel_first):
    arms = {"kernel": lambda: engine.kernel(plan), "weightpager": lambda: run_weightpager(engine, plan)}
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
