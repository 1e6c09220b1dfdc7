#!/usr/bin/env python3
"""Two drives with a copy of the model each: how close `run --mirror` comes to the sum of their bandwidths.

A machine with one disk stands in for one with two: two ext4 filesystems lie on loop devices, whose images lie in
memory, and the kernel's throttle of block devices (cgroup v1, blkio.throttle.read_bps_device) sets the speed of each.
What the pager reads is real, and so are the queues in front of the drives. The engine maps the model and touches
every page, pass after pass, in the order of the file; it has nothing to compute, so the drives are the bound. Bytes
read by the time from the first mapping to the last read are its bandwidth: with the one drive alone, with the other
one alone, and with both, in turns. At the end of each run the engine makes a checksum of all it was shown; a run with
another one than the file's is invalid. One more run has a drive that becomes six times as slow while it is read.

Needs root, /dev/loop-control, a blkio cgroup, and twice the model's size of memory.
Writes bench/results/DATE-mirrors.json and prints a Markdown table.

    bench/mirrors.py                 the table of docs/explanation/benchmarks.md (four minutes)
    bench/mirrors.py --quick         does it work at all (20 seconds)
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import comparison
import machine
import throttle
from comparison import number
from engine_runs import WEIGHTPAGER, say

SUM_PROMISED = 0.95
ENGINE = """
import json, mmap, sys, time, zlib
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for _ in range(int(sys.argv[2])):
    weights[::4096]
print(zlib.crc32(weights))
"""


def parse_arguments():
    parser = comparison.argument_parser(__doc__, "512MiB", "256 MiB, one pair of speeds, one repeat")
    parser.add_argument("--passes", type=int, default=4, help="per run")
    parser.add_argument("--speeds", default="300+300,150+450,100+500", metavar="MB/s+MB/s,…")
    parser.add_argument("--window", type=int, default=25, help="percent of the model (default %(default)s)")
    options = comparison.parse(parser, "passes", {"size": "256MiB", "repeats": 1, "speeds": "150+450"})
    options.pairs = [[int(speed) for speed in pair.split("+")] for pair in options.speeds.split(",")]
    return options


def refuse_if_impossible():
    lacks = throttle.lacks()
    lacks += ["/dev/loop-control"] if not os.path.exists("/dev/loop-control") else []
    lacks += ["mkfs.ext4"] if not shutil.which("mkfs.ext4") else []
    if lacks:
        raise SystemExit(f"this needs {' and '.join(lacks)}")


class Drive:
    """A filesystem on a loop device, with a copy of the model."""

    def __init__(self, folder, name, model_bytes, stack):
        image = folder / f"{name}.img"
        self.directory = folder / name
        self.directory.mkdir()
        with open(image, "wb") as file:
            file.truncate(model_bytes * 11 // 10 + (64 << 20))
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, self.directory], check=True)
        stack.callback(self.unmount)
        device = os.stat(self.directory).st_dev
        self.device = f"{os.major(device)}:{os.minor(device)}"
        self.model = self.directory / "model.bin"


    def unmount(self):
        # The kernel lets go of a ring's files some time after its process has ended.
        for _ in range(100):
            if subprocess.run(["umount", self.directory], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.1)
        say(f"{self.directory} cannot be unmounted")


def run(throttled, model, mirror, options, beside=None):
    """`beside` is called with the run's process when it has begun."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "run.json"
        command = [WEIGHTPAGER, "run", "--window", f"{options.window}%", "--match", "*.bin", "--quiet", "--json", report]
        command += ["--mirror", mirror.directory] if mirror else []
        command += ["--", sys.executable, "-c", ENGINE, model.model, str(options.passes)]
        process = subprocess.Popen(command, preexec_fn=throttled.enter, stdout=subprocess.PIPE)
        if beside:
            threading.Thread(target=beside, daemon=True).start()
        try:
            output = process.communicate(timeout=400)[0]
        finally:
            process.terminate()
            process.wait()
        if process.returncode != 0:
            raise SystemExit(f"weightpager ended with status {process.returncode}")
        facts = json.loads(report.read_text())["processes"][0]
    return {"bytes_per_s": facts["read_bytes"] / facts["elapsed_ns"] * 1e9, "crc": int(output), "pager": facts}


def measure_pair(throttled, drives, speeds, options):
    arms = {"first": (drives[0], None), "second": (drives[1], None), "both": (drives[0], drives[1])}
    pair = {"speeds_mb_s": speeds, "runs": {arm: [] for arm in arms}}
    for drive, speed in zip(drives, speeds):
        throttled.set(drive.device, speed)
    for _ in range(options.repeats):
        for arm, (model, mirror) in arms.items():
            pair["runs"][arm].append(run(throttled, model, mirror, options))
    return pair


def measure_change(throttled, drives, speeds, options):
    """The faster drive becomes slow after two seconds."""
    for drive, speed in zip(drives, speeds):
        throttled.set(drive.device, speed)
    slow = [speeds[0], speeds[1] // 6]

    def slow_down():
        time.sleep(2)
        throttled.set(drives[1].device, slow[1])

    return {"speeds_mb_s": speeds, "then_mb_s": slow,
            "runs": {"both": [run(throttled, drives[0], drives[1], options, slow_down)]}}


def evaluate(pair, crc):
    for runs in pair["runs"].values():
        for it in runs:
            if it["crc"] != crc:
                it["invalid"] = "other bytes"
    for arm, runs in pair["runs"].items():
        pair[f"{arm}_mb_s"] = machine.median([it["bytes_per_s"] / 1e6 for it in runs if "invalid" not in it])
    if "first" in pair["runs"]:
        pair["of_sum"] = pair["both_mb_s"] / (pair["first_mb_s"] + pair["second_mb_s"])
        pair["mirror_share"] = machine.median([it["pager"]["mirror_1_read_bytes"] / it["pager"]["read_bytes"]
                                               for it in pair["runs"]["both"]])


def markdown(report):
    options = report["options"]
    lines = [
        f"{comparison.opening(report)}, load average at the start {report['machine']['load_average']:.1f}. A model of "
        f"{report['model_bytes'] / 2**30:.2f} GiB in a window of {options['window']} %, {options['passes']} passes, "
        f"medians of {options['repeats']}. MB/s:",
        "",
        "| drives set to | first alone | second alone | both | of the sum | read from the mirror |",
        "|---|---|---|---|---|---|",
    ]
    for pair in report["pairs"]:
        lines.append(f"| {' + '.join(map(str, pair['speeds_mb_s']))} | {number(pair['first_mb_s'], 0)} "
                     f"| {number(pair['second_mb_s'], 0)} | {number(pair['both_mb_s'], 0)} | {number(pair['of_sum'])} "
                     f"| {100 * pair['mirror_share']:.0f} % |")
    change = report["change"]
    lines += ["", f"The second drive slows down from {change['speeds_mb_s'][1]} to {change['then_mb_s'][1]} MB/s after "
              f"two seconds, beside a first one of {change['speeds_mb_s'][0]}: {number(change['both_mb_s'], 0)} MB/s over "
              "the whole run."]
    bad = sum("invalid" in it for pair in report["pairs"] + [change] for runs in pair["runs"].values() for it in runs)
    worst = min(pair["of_sum"] for pair in report["pairs"])
    return "\n".join(lines + ["", f"{bad} runs with other bytes; " +
                              "; ".join(comparison.verdict([("of the sum", worst, SUM_PROMISED)], report))])


def main():
    refuse_if_impossible()
    options = parse_arguments()
    build = comparison.build_facts()
    comparison.warn_if_busy()
    model_bytes = int(options.size.removesuffix("MiB")) << 20
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        drives = [Drive(folder, name, model_bytes, stack) for name in ("first", "second")]
        content = os.urandom(model_bytes)
        for drive in drives:
            drive.model.write_bytes(content)
        crc = zlib.crc32(content)
        del content
        os.sync()
        throttled = stack.enter_context(throttle.Throttle())
        report = comparison.new_report("mirrors", build, drives[0].model, options, "repeats", "passes", "window", "quick")
        report |= {"model_bytes": model_bytes, "pairs": []}
        # The whole comparison of the copies comes first, so that no run has it.
        run(throttled, drives[0], drives[1], options)
        for speeds in options.pairs:
            pair = measure_pair(throttled, drives, speeds, options)
            evaluate(pair, crc)
            report["pairs"].append(pair)
            say(f"  {speeds} MB/s: {number(pair['both_mb_s'], 0)}, {number(pair['of_sum'])} of the sum")
        report["change"] = measure_change(throttled, drives, options.pairs[0], options)
        evaluate(report["change"], crc)
    comparison.publish(report, markdown(report), options)


if __name__ == "__main__":
    main()
