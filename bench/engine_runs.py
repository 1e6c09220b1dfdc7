"""One run of an engine: alone, inside a memory limit with the kernel's mmap or swap, or there in a weightpager window.

A program of bench/engines loads a model, computes, and says in the last line of its output, one JSON object, what
it measured. Inside a limit it starts with the file out of the page cache. To what it said is added what the
group held ("group") and what the pager counted ("pager"); where it failed, "invalid" says how.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("WEIGHTPAGER_CACHE", pathlib.Path.home() / ".cache/weightpager"))
BUILD = pathlib.Path(os.environ.get("WEIGHTPAGER_BUILD", ROOT / "build/release"))
PACKED = BUILD / "bin/weightpager"  # what tools/scripts/gpu/pack.sh took to another machine
WEIGHTPAGER = PACKED if PACKED.exists() else BUILD / "tools/weightpager"
SLACK_BYTES = 64 << 20  # in a limit, beyond the window and what the engine needs for itself


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def tool_output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def run_alone(command):
    """No limit, and the file where it is."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 77:
        raise SystemExit(lines[-1])
    if done.returncode != 0 or not lines:
        return {"invalid": f"the engine ended with {done.returncode}"}
    return json.loads(lines[-1])


def run_limited(model, limit_bytes, command, swap=False):
    """`swap`: the limit is on memory alone, and the kernel may swap beyond it."""
    machine.drop_page_cache(model)
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "group.json"
        run = run_alone([str(ROOT / "tools/scripts/lib/cgroup.sh"), "--limit", str(limit_bytes), *(["--swap"] if swap else []),
                         "--report", str(report), "--", *command])
        run["group"] = json.loads(report.read_text()) if report.exists() else None
    return run


def run_in_window(model, limit_bytes, window_bytes, command, match=None, spill=None):
    """`spill`: the folder where memory of the engine's own goes that does not fit into the window."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "pager.json"
        run = run_limited(model, limit_bytes, [
            str(WEIGHTPAGER), "run", "-q", "--window", f"{window_bytes >> 20}MiB",
            *(["--match", match] if match else []), *(["--spill", str(spill)] if spill else []),
            "--json", str(report), "--", *command])
        run["pager"] = json.loads(report.read_text()) if report.exists() else None
    return run


def plan_of(percent, mapped_bytes, own_bytes):
    """A window in percent of what the engine maps, and the limit that both arms run in."""
    window_bytes = mapped_bytes * percent // 100 // machine.CHUNK_BYTES * machine.CHUNK_BYTES
    return {"percent": percent, "window_bytes": window_bytes, "limit_bytes": window_bytes + own_bytes + SLACK_BYTES}
