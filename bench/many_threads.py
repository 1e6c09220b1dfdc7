#!/usr/bin/env python3
"""Engines whose threads work through each matrix side by side, simulated: how near to the ceiling, and what is read.

The model is made up: a Llama of 4 GiB in bf16, whose first and last matrices have 144 MiB each, more than the ring. A
pass goes through all of it, as PyTorch does in swept_matrices.py. The file has a header and no weights. The ceiling is
max(computing, (model - window) / disk). Passes count from the third on. The disk of this machine plays no part.

The bound is what no policy beats, not even one that knows the future. A chunk that stays takes its place for the whole
pass, and one that does not takes one while it is read and while a thread computes from it. All that fits into window x
time, so of N chunks in a window of W at least N - W + (the time that the others take) / (time of a pass) are read. At
best, those are read from which threads compute for the shortest time.

    bench/many_threads.py           writes bench/results/DATE-many_threads.json and prints Markdown
    bench/many_threads.py --quick   does it work at all
"""

import argparse
import datetime
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIGHTPAGER = ROOT / "build/release/tools/weightpager"
WINDOWS = (12, 25, 50, 72)
DISKS_GB_PER_S = (2, 7, 14)
CEILING_PROMISED = 0.97
READS_PROMISED = 1.03

WIDTH, HIDDEN, KEYS, WORDS, LAYERS = 3072, 9472, 768, 24576, 18
MATRICES = (("input_layernorm", 1, WIDTH), ("self_attn.q_proj", WIDTH, WIDTH), ("self_attn.k_proj", KEYS, WIDTH),
            ("self_attn.v_proj", KEYS, WIDTH), ("self_attn.o_proj", WIDTH, WIDTH),
            ("post_attention_layernorm", 1, WIDTH), ("mlp.gate_proj", HIDDEN, WIDTH), ("mlp.up_proj", HIDDEN, WIDTH),
            ("mlp.down_proj", WIDTH, HIDDEN))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,4,16,64", help="default %(default)s")
    parser.add_argument("--passes", type=int, default=10, help="default %(default)s")
    parser.add_argument("--compute", type=float, default=20, help="GB/s of memory (default %(default)s)")
    parser.add_argument("--policy", default="pin-stream", help="default %(default)s")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="16 threads, one disk")
    return parser.parse_args()


def write_model(path):
    """A .safetensors file without weights. The first matrix is a layer's, because a pass goes through all of it."""
    header, end = {}, 0

    def add(name, rows, columns):
        nonlocal end
        begin, end = end, end + 2 * rows * columns
        header[name] = {"dtype": "BF16", "shape": [rows, columns] if rows > 1 else [columns],
                        "data_offsets": [begin, end]}

    add("model.layers.0.first.weight", WORDS, WIDTH)
    for layer in range(LAYERS):
        for name, rows, columns in MATRICES:
            add(f"model.layers.{layer}.{name}.weight", rows, columns)
    add("model.norm.weight", 1, WIDTH)
    add("lm_head.weight", WORDS, WIDTH)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def simulate(model, threads, gb_per_s, options, folder):
    report = folder / "report.json"
    words = [WEIGHTPAGER, "bench", "policies", model, "--threads", threads, "--disk", f"{gb_per_s}GB/s", "--window",
             ",".join(f"{it}%" for it in WINDOWS), "--policy", options.policy, "--passes", options.passes, "--warm-up", 2,
             "--compute", options.compute, "--json", report]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return json.loads(report.read_text())


def computing_from_a_chunk(threads, compute_gb_per_s):
    """By chunk, in ns: how long the thread computes from it that has most of it."""
    sizes = [2 * rows * columns for _, rows, columns in MATRICES] * LAYERS + [2 * WORDS * WIDTH] * 2
    times = []
    for size in sizes:
        part_bytes = min(machine.CHUNK_BYTES, size / threads)
        times += [part_bytes * threads / compute_gb_per_s] * (size // machine.CHUNK_BYTES)
    return sorted(times)


def least_pass_ns(report, window, gb_per_s, threads, compute_gb_per_s):
    missing = (report["model_bytes"] - window["window_bytes"]) / machine.CHUNK_BYTES
    chunk_ns = machine.CHUNK_BYTES / gb_per_s
    places_ns = sum(computing_from_a_chunk(threads, compute_gb_per_s)[:int(missing)]) + missing * chunk_ns
    reading_ns = missing * chunk_ns  # pass = (missing + places_ns / pass) * chunk_ns
    return max(report["compute_ns"], (reading_ns + math.sqrt(reading_ns ** 2 + 4 * places_ns * chunk_ns)) / 2)


def evaluate(report, gb_per_s, threads, compute_gb_per_s):
    """By window: the part of the ceiling and of the bound, what is read of what is allowed, and how busy the disk is."""
    cells = []
    for percent, window in zip(WINDOWS, report["windows"], strict=True):
        figures = window["policies"][0]["simulated"]
        missing = report["model_bytes"] - window["window_bytes"]
        ceiling_ns = max(report["compute_ns"], missing / gb_per_s)
        ring_bytes = min(128 << 20, window["window_bytes"] // 4, missing)
        least_ns = least_pass_ns(report, window, gb_per_s, threads, compute_gb_per_s)
        cells.append({"window_percent": percent, "pass_ns": figures["pass_ns_mean"], "least_pass_ns": least_ns,
                      "bound_of_ceiling": ceiling_ns / least_ns,
                      "disk_busy": figures["read_bytes"] / gb_per_s / figures["pass_ns_mean"],
                      "of_ceiling": ceiling_ns / figures["pass_ns_mean"], "read_bytes": figures["read_bytes"],
                      "reads_ratio": figures["read_bytes"] / (missing + ring_bytes),
                      "of_missing": figures["read_bytes"] / missing, "demand_reads": figures["demand_reads"]})
    return cells


def markdown(rows):
    lines = ["| threads | disk, GB/s | " + " | ".join(f"{it} %" for it in WINDOWS) + " |",
             "|---|---|" + "---|" * len(WINDOWS)]
    for row in rows:
        cells = (f"{it['of_ceiling']:.2f} ({it['bound_of_ceiling']:.2f}); {it['reads_ratio']:.2f}; {it['disk_busy']:.2f}"
                 for it in row["windows"])
        lines.append(f"| {row['threads']} | {row['disk_gb_per_s']} | " + " | ".join(cells) + " |")
    cells = [it for row in rows for it in row["windows"]]
    lines += ["", f"Least of the ceiling {min(it['of_ceiling'] for it in cells):.3f} (promised {CEILING_PROMISED}), most "
              f"of the reads that are allowed {max(it['reads_ratio'] for it in cells):.3f} (promised {READS_PROMISED})."]
    return "\n".join(lines)


def main():
    options = parse_arguments()
    threads = [16] if options.quick else [int(word) for word in options.threads.split(",")]
    disks = DISKS_GB_PER_S[:1] if options.quick else DISKS_GB_PER_S
    date = datetime.date.today().isoformat()
    output = options.output or ROOT / f"bench/results/{date}-many_threads.json"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model.safetensors"
        write_model(model)
        for count in threads:
            for gb_per_s in disks:
                report = simulate(model, count, gb_per_s, options, pathlib.Path(folder))
                rows.append({"threads": count, "disk_gb_per_s": gb_per_s, "compute_ns": report["compute_ns"],
                             "windows": evaluate(report, gb_per_s, count, options.compute)})
    output.write_text(json.dumps({"date": date, "commit": machine.commit_of(WEIGHTPAGER), "policy": options.policy,
                                  "compute_gb_per_s": options.compute, "passes": options.passes, "rows": rows},
                                 indent=1) + "\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()
