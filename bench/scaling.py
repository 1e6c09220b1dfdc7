#!/usr/bin/env python3
"""What to expect of models that are far larger than memory, before buying hardware: docs/explanation/scaling.md.

For models of 70 and 405 billion parameters and a mixture of 671 billion, made up as traces, the simulator runs
weightpager's default policy, and what an operating system does (read ahead, or read what is touched), on disks of 3 to
112 GB/s and windows of 8 to 512 GiB. Takes minutes; the disk of this machine plays no part.

    bench/scaling.py                writes bench/results/DATE-scaling.json and prints Markdown
    bench/scaling.py --quick        does it work at all
"""

import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIGHTPAGER = ROOT / "build/release/tools/weightpager"
GIB = 1 << 30
BYTES_PER_WEIGHT = 0.5625  # 4.5 bits: Q4_K and its like

# One drive of each generation, then several side by side.
DISKS_GB_PER_S = {"3 (Gen 3)": 3, "7 (Gen 4)": 7, "14 (Gen 5)": 14, "28 (4 × 7)": 28, "112 (8 × 14)": 112}
WINDOWS_GIB = (8, 16, 32, 64, 128, 256, 512)


def size(weights):
    return f"{int(weights * BYTES_PER_WEIGHT)}"


# Weights, kind and shape for `trace make`, what an operating system would do, passes, those of them to warm up.
MODELS = {
    "70 B dense": (70e9, "dense", ["--layers", "80", "--dense", size(70e9 / 80)], "readahead", 10, 5),
    "405 B dense": (405e9, "dense", ["--layers", "126", "--dense", size(405e9 / 126)], "readahead", 10, 5),
    # 58 layers of 256 experts, 8 of them used; 37 B active, of which experts 20 B.
    "671 B mixture": (671e9, "moe", ["--layers", "58", "--dense", size(16.6e9 / 58), "--experts", "256",
                                     "--experts-used", "8", "--slab", size(7168 * 2048)], "demand", 80, 60),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute", type=float, default=60, help="GB/s of memory (default %(default)s)")
    parser.add_argument("--zipf", type=float, default=0.7, help="favourites among experts (default %(default)s)")
    parser.add_argument("--models", default=",".join(MODELS), help="default %(default)s")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="the smallest model, two disks, two windows")
    return parser.parse_args()


def run(*words):
    done = subprocess.run([WEIGHTPAGER, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def windows_for(weights, options):
    """Up to the first that holds everything: larger ones are no faster."""
    model_bytes = weights * BYTES_PER_WEIGHT
    fitting = [it for it in WINDOWS_GIB if it * GIB < model_bytes]
    windows = fitting + list(WINDOWS_GIB[len(fitting):len(fitting) + 1])
    return windows[:2] if options.quick else windows


def simulate(name, options, folder):
    weights, kind, shape, kernel, passes, warm_up = MODELS[name]
    trace = folder / "model.trace"
    run("trace", "make", kind, *shape, "--passes", passes, "--compute", options.compute, "--zipf", options.zipf,
        "-o", trace)
    report = folder / "report.json"
    disks = list(DISKS_GB_PER_S.items())[:2 if options.quick else None]
    windows = windows_for(weights, options)
    found = {"name": name, "policies": ["expert", kernel], "disks": {}}
    for label, gb_per_s in disks:
        run("bench", "policies", trace, "--window", ",".join(f"{it}GiB" for it in windows), "--disk",
            f"{gb_per_s}GB/s", "--policy", f"expert,{kernel}", "--warm-up", warm_up, "--json", report)
        found["disks"][label] = json.loads(report.read_text())
        found["model_bytes"] = found["disks"][label]["model_bytes"]
        print(f"{name}, {label}", file=sys.stderr)
    return found


def tokens(per_second):
    return f"{per_second:.2f}" if per_second >= 0.1 else f"{per_second:.3f}"


def cell(window):
    expert, kernel = (1e9 / it["simulated"]["pass_ns_median"] for it in window["policies"])
    return f"{tokens(expert)} ({tokens(kernel)})"


def markdown(found):
    labels = list(found["disks"])
    first = found["disks"][labels[0]]
    print(f"\n### {found['name']}: {found['model_bytes'] / GIB:.0f} GiB\n")
    print(f"Computing alone: {1e9 / first['compute_ns']:.2f} tokens a second. In brackets: {found['policies'][1]}.\n")
    print("| window | " + " | ".join(f"{it} GB/s" for it in labels) + " |")
    print("|---|" + "---|" * len(labels))
    for i, window in enumerate(first["windows"]):
        share = 100 * window["window_bytes"] / found["model_bytes"]
        cells = (cell(found["disks"][it]["windows"][i]) for it in labels)
        print(f"| {window['window_bytes'] / GIB:.0f} GiB ({share:.0f} %) | " + " | ".join(cells) + " |")


def main():
    options = parse_arguments()
    date = datetime.date.today().isoformat()
    output = options.output or ROOT / f"bench/results/{date}-scaling.json"
    names = options.models.split(",")[:1 if options.quick else None]
    with tempfile.TemporaryDirectory() as folder:
        models = [simulate(it, options, pathlib.Path(folder)) for it in names]
    output.write_text(json.dumps({"date": date, "kernel": platform.release(), "compute_gb_per_s": options.compute,
                                  "zipf": options.zipf, "models": models}, indent=1) + "\n")
    for it in models:
        markdown(it)


if __name__ == "__main__":
    main()
