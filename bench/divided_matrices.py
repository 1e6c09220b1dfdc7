#!/usr/bin/env python3
"""How an engine divides matrices among its threads: what PyTorch was seen to touch, beside the simulator's model of it.

Records PyTorch (torch_safetensors.py) under `weightpager run --policy demand`, and compares the recorded passes with
those of `trace make`'s model: each thread its strip, all threads at one matrix (pager/simulate/divide_matrix.h). Of a
matrix: which chunks are touched, in how many places at once (chunks that are touched while the one before them was not
touched yet in that matrix), and how far apart. Recorded touches are fewer than real ones: a chunk that several threads
use counts once until 32 MiB of others were touched, or a quarter of the window.

    bench/divided_matrices.py       writes bench/results/DATE-divided_matrices.json and prints Markdown
"""

import argparse
import datetime
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIGHTPAGER = ROOT / "build/release/tools/weightpager"
WORTH_DIVIDING = 64 << 10  # bytes, as in divide_matrix.cc


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="a .safetensors file")
    parser.add_argument("--threads", default="1,4,16", help="default %(default)s")
    parser.add_argument("--passes", type=int, default=4, help="the last one counts (default %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="one with PyTorch and safetensors")
    parser.add_argument("--window", default="12%", help="default %(default)s")
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def matrices_of(path, chunk_bytes):
    """Name, and first and last chunk, of each matrix that is larger than a chunk."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    found = []
    for name, tensor in header.items():
        if name == "__metadata__" or len(tensor["shape"]) != 2:
            continue
        begin, end = (8 + length + offset for offset in tensor["data_offsets"])
        found.append((begin, end, name))
    return [(name, begin / chunk_bytes, end / chunk_bytes) for begin, end, name in sorted(found)]


def record(model, threads, options, folder):
    trace, as_json = folder / "recorded.trace", folder / "recorded.json"
    command = [WEIGHTPAGER, "run", "--window", options.window, "--policy", "demand", "--record", trace, "--match",
               "*.safetensors", "--", options.python, ROOT / "bench/engines/torch_safetensors.py", "--model", model,
               "--passes", options.passes, "--threads", threads]
    for words in (command, [WEIGHTPAGER, "trace", "convert", trace, "-o", as_json]):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr[-2000:]}")
    return json.loads(as_json.read_text())


def in_order_of_time(begin, end, threads):
    """The model's first touches of the matrix from chunk `begin` to `end` (fractions): all strips side by side."""
    strip = (end - begin) / threads
    places = []
    for thread in range(threads):
        first, last = begin + thread * strip, begin + (thread + 1) * strip
        for chunk in range(int(first), int(last - 1e-9) + 1):
            places.append((max(chunk - first, 0), chunk))
    return list(dict.fromkeys(chunk for _, chunk in sorted(places)))


def places_at_once(touched):
    """How many rows of neighbours the touches fall into: a chunk goes on the row that ends before it."""
    ends, begun = set(), 0
    for chunk in touched:
        if chunk - 1 in ends:
            ends.remove(chunk - 1)
        else:
            begun += 1
        ends.add(chunk)
    return begun


def order_agreement(one, other):
    """The share of pairs of chunks that both have in the same order."""
    rank = {chunk: at for at, chunk in enumerate(other)}
    common = [rank[chunk] for chunk in one if chunk in rank]
    pairs = same = 0
    for i, here in enumerate(common):
        for there in common[i + 1:]:
            pairs += 1
            same += there > here
    return same / pairs if pairs else 1.0


def last_pass_by_matrix(recorded, matrices):
    """Of the last visit of each matrix: its first touches in the order of time."""
    touched = [touch[0] for touch in recorded["touches"]]
    visits = {}
    for name, begin, end in matrices:
        inner = range(int(begin) + 1, int(end))  # border chunks belong to neighbours, too
        at = [i for i, chunk in enumerate(touched) if chunk in inner]
        if not at:
            continue
        # The last run of touches without a long gap is the last visit.
        first = len(at) - 1
        while first > 0 and at[first] - at[first - 1] <= 2 * len(inner) + 16:
            first -= 1
        visits[name] = list(dict.fromkeys(touched[i] for i in at[first:]))
    return visits


def compare(recorded, matrices, threads):
    rows = []
    for name, seen in last_pass_by_matrix(recorded, matrices).items():
        begin, end = next((b, e) for n, b, e in matrices if n == name)
        if (end - begin) * recorded["chunk_bytes"] < 8 * recorded["chunk_bytes"]:
            continue
        model = [chunk for chunk in in_order_of_time(begin, end, threads) if int(begin) < chunk < int(end)]
        rows.append({"matrix": name, "chunks": len(model), "seen_chunks": len(seen), "places": places_at_once(model),
                     "seen_places": places_at_once(seen), "agreement": order_agreement(seen, model),
                     "agreement_of_one_thread": order_agreement(seen, sorted(model))})
    return rows


def mean(rows, key):
    return sum(row[key] for row in rows) / len(rows)


def main():
    options = parse_arguments()
    date = datetime.date.today().isoformat()
    output = options.output or ROOT / f"bench/results/{date}-divided_matrices.json"
    results = []
    print("| threads | matrices | chunks touched, of those that the model touches | places at once: seen | model "
          "| pairs of chunks in the model's order | in the file's order |\n|---|---|---|---|---|---|---|")
    for threads in (int(word) for word in options.threads.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            recorded = record(options.model, threads, options, pathlib.Path(folder))
        rows = compare(recorded, matrices_of(options.model, recorded["chunk_bytes"]), threads)
        results.append({"threads": threads, "touches": len(recorded["touches"]), "matrices": rows})
        print(f"| {threads} | {len(rows)} | {mean(rows, 'seen_chunks') / mean(rows, 'chunks'):.2f} "
              f"| {mean(rows, 'seen_places'):.1f} | {mean(rows, 'places'):.1f} | {mean(rows, 'agreement'):.2f} "
              f"| {mean(rows, 'agreement_of_one_thread'):.2f} |", flush=True)
    output.write_text(json.dumps({"date": date, "commit": machine.commit_of(WEIGHTPAGER), "model": options.model.name,
                                  "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
