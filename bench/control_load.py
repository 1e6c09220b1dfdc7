#!/usr/bin/env python3
"""What watching costs: pass times of an engine with clients at its control socket, and without.

The clients: eight that ask for `stat` and `residency` at 100 Hz, one that asks and never reads, one that sends garbage
(1 GiB in all rounds together). Phases with and without them take turns in one process of the engine, so that the machine's
moods are the same for both. Measured in a window that the model does not fit into (the disk is busy) and in one that
it fits into (the processor is).

    bench/control_load.py              writes bench/results/DATE-control_load.json and prints Markdown
    bench/control_load.py --quick      does it work at all
"""

import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from comparison import argument_parser, build_facts, new_report, number, opening, parse, publish, verdict, warn_if_busy
from engine_runs import ROOT, WEIGHTPAGER, say
from llama_runs import made_model

CLIENTS = 8
PERIOD_S = 0.01
GARBAGE_BYTES = 1 << 30
WINDOWS = {"half": "50%", "all": "110%"}
SETTLING_PASSES = 3


def connect(path):
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    return client


def poll(path, is_over, counts, errors):
    """100 times a second, each tenth time for more."""
    requests = [b'{"request":"stat"}\n'] * 9 + [b'{"request":"residency"}\n']
    with connect(path) as client, client.makefile("rb") as answers:
        due = time.monotonic()
        while not is_over.is_set():
            client.sendall(requests[len(counts) % len(requests)])
            if not json.loads(answers.readline())["ok"]:
                errors.append("an answer was an error")
            counts.append(1)
            due += PERIOD_S
            is_over.wait(max(due - time.monotonic(), 0))


def never_read(path, is_over):
    """Connects again when it was closed."""
    while not is_over.is_set():
        with connect(path) as client:
            client.settimeout(0.1)
            try:
                while not is_over.is_set():
                    client.sendall(b'{"request":"residency","by":"chunk"}\n')
                    is_over.wait(PERIOD_S)
            except OSError:
                continue


def send_garbage(path, is_over, garbage_bytes):
    """At a steady pace; whoever refuses it is connected to again."""
    piece = os.urandom(64 << 10).replace(b"\n", b" ")
    while garbage_bytes > 0 and not is_over.is_set():
        with connect(path) as client:
            try:
                while garbage_bytes > 0 and not is_over.is_set():
                    client.sendall(piece)
                    garbage_bytes -= len(piece)
            except OSError:
                garbage_bytes -= len(piece)
        is_over.wait(PERIOD_S / 10)


def load(path, garbage_bytes):
    """All clients, as a process of their own, until SIGTERM; prints how often they asked."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    counts, errors = [], []
    threads = [threading.Thread(target=poll, args=(path, is_over, counts, errors)) for _ in range(CLIENTS)]
    threads.append(threading.Thread(target=never_read, args=(path, is_over)))
    threads.append(threading.Thread(target=send_garbage, args=(path, is_over, garbage_bytes)))
    for thread in threads:
        thread.start()
    is_over.wait()
    for thread in threads:
        thread.join()
    print(json.dumps({"answers": len(counts), "errors": errors}))


def resident_bytes(process_id):
    for line in pathlib.Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise SystemExit("the engine has ended")


class Engine:
    """Under weightpager, with a reader of what it prints."""

    def __init__(self, model, window, directory):
        self.passes = []
        environment = {**os.environ, "XDG_RUNTIME_DIR": directory}
        self.run = subprocess.Popen(
            [WEIGHTPAGER, "run", "-q", "--window", window, "--policy", "expert", "--", sys.executable,
             ROOT / "bench/engines/timed_passes.py", model], stdout=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self.read, daemon=True).start()
        self.await_passes(SETTLING_PASSES)
        listed = subprocess.run([WEIGHTPAGER, "ps", "--json"], stdout=subprocess.PIPE, env=environment, check=True)
        self.process_id = json.loads(listed.stdout)["process_id"]
        self.socket = f"{directory}/weightpager/{self.process_id}.sock"

    def read(self):
        for line in self.run.stdout:
            end, seconds = map(float, line.split())
            self.passes.append((end, seconds))

    def await_passes(self, count):
        wanted = len(self.passes) + count
        while len(self.passes) < wanted:
            if self.run.poll() is not None:
                raise SystemExit(f"the engine ended with {self.run.returncode}")
            time.sleep(0.01)

    def passes_during(self, seconds):
        """Of those that lie wholly within the next so many seconds; at least three."""
        begin, count = time.monotonic(), len(self.passes)
        time.sleep(seconds)
        self.await_passes(max(0, 4 - (len(self.passes) - count)))
        return [took for end, took in self.passes[count:] if end - took >= begin]

    def kill(self):
        os.kill(self.process_id, signal.SIGKILL)
        self.run.wait()


def measure(model, window, options):
    rows = []
    with tempfile.TemporaryDirectory(prefix="wp-", dir="/tmp") as directory:
        engine = Engine(model, window, directory)
        for number_of_round in range(options.rounds):
            row = {}
            for arm in ("without", "with") if number_of_round % 2 == 0 else ("with", "without"):
                clients = None
                if arm == "with":
                    row["resident_before_bytes"] = resident_bytes(engine.process_id)
                    garbage = str(GARBAGE_BYTES // options.rounds)
                    clients = subprocess.Popen([sys.executable, __file__, "--load", engine.socket, garbage],
                                               stdout=subprocess.PIPE, text=True)
                row[arm] = engine.passes_during(options.seconds)
                if clients is not None:
                    row["resident_after_bytes"] = resident_bytes(engine.process_id)
                    clients.terminate()
                    row["clients"] = json.loads(clients.communicate()[0])
            rows.append(row)
            say(f"window {window}, round {number_of_round}: {statistics.median(row['without']):.4f} s without, "
                f"{statistics.median(row['with']):.4f} s with, {row['clients']['answers']} answers")
        engine.kill()
    without = statistics.median(took for row in rows for took in row["without"])
    with_clients = statistics.median(took for row in rows for took in row["with"])
    return {"window": window, "rounds": rows, "without_s": without, "with_s": with_clients,
            "ratio": with_clients / without,
            "ratio_by_round": [statistics.median(row["with"]) / statistics.median(row["without"]) for row in rows],
            "growth_bytes": max(row["resident_after_bytes"] - row["resident_before_bytes"] for row in rows),
            "answers_per_s": sum(row["clients"]["answers"] for row in rows) / (options.rounds * options.seconds),
            "errors": [error for row in rows for error in row["clients"]["errors"]]}


def main():
    if sys.argv[1:2] == ["--load"]:
        return load(sys.argv[2], int(sys.argv[3]))
    parser = argument_parser(__doc__, "2GiB", "a small model and short phases")
    parser.add_argument("--seconds", type=int, default=10, help="of each phase")
    parser.add_argument("--rounds", type=int, default=6, help="of a phase with and one without clients")
    options = parse(parser, "seconds", {"size": "256MiB", "seconds": 3, "rounds": 2})
    build = build_facts()
    warn_if_busy()
    model = made_model(f"control-load-{options.size}.gguf", "--size", options.size, "--type", "f16")
    report = new_report("control_load", build, model, options, "size", "seconds", "rounds", "quick")
    report["arms"] = {name: measure(model, window, options) for name, window in WINDOWS.items()}
    lines = [opening(report), "", "| window | pass without | with clients | ratio | by round | answers/s | memory |",
             "|---|---|---|---|---|---|---|"]
    for arm in report["arms"].values():
        by_round = ", ".join(number(ratio, 3) for ratio in arm["ratio_by_round"])
        lines.append(f"| {arm['window']} | {arm['without_s']:.3f} s | {arm['with_s']:.3f} s | {number(arm['ratio'], 3)} | "
                     f"{by_round} | {arm['answers_per_s']:.0f} | {arm['growth_bytes'] / (1 << 20):+.1f} MiB |")
    lines += verdict([(f"ratio, window {name}", arm["ratio"], 1.02, False) for name, arm in report["arms"].items()], report)
    publish(report, "\n".join(lines), options)
    if any(arm["errors"] for arm in report["arms"].values()):
        raise SystemExit("a client was answered with an error")
    return None


main()
