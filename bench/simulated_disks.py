#!/usr/bin/env python3
"""What other disks than this machine's would make of windows of 3.5 and 7.5 % of the weights, by equation.

`weightpager bench simulate` for the five networks of Demand Layering, with what all their kernels took in a report of
bench/pipelines.py (Pre, with everything in memory), and for YOLOv4 also with what they took on the paper's GPU. Prints
delays over what kernels take, on average over networks, beside the least that a disk allows: the longer of kernels and
of all bytes at its speed. Seconds; nothing is read or computed.

    bench/simulated_disks.py bench/results/DATE-pipelines.json
"""

import argparse
import json
import pathlib
import statistics
import tempfile

from engine_runs import WEIGHTPAGER, tool_output
from pipelines import SHARES, percent_over, windows_of

PAPER = ("yolov4", 160.8)  # ms
COLUMNS = [f"{kind} {share} %" for share in SHARES for kind in ("tiles", "overlay")]


def simulated(network, folder, kernels_ms):
    """Of each disk (GB/s): what it costs over kernels (percent), by column, "least" being what any pipeline must take."""
    cfg = folder / f"{network['network']}.cfg"
    lines = tool_output(WEIGHTPAGER, "bench", "simulate", cfg, "--kernels", f"{kernels_ms:.1f}", "--windows",
                        windows_of(cfg)).splitlines()
    found = {}
    for disk, *delays in (line.split() for line in lines[3:]):
        least_ms = max(kernels_ms, network["folded_bytes"] / float(disk) / 1e6)
        tiled = dict(zip(COLUMNS, map(float, delays[-len(COLUMNS):])))
        found[disk] = {name: percent_over(ms, kernels_ms) for name, ms in ({"least": least_ms} | tiled).items()}
    return found


def table(title, rows):
    print(f"\n{title}\n\n| disk GB/s | least | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    for disk, costs in rows.items():
        print(f"| {disk} | {' | '.join(f'{costs[name]:+.1f} %' for name in ('least', *COLUMNS))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="of bench/pipelines.py")
    networks = json.loads(parser.parse_args().report.read_text())["networks"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for network in networks:
            tool_output(WEIGHTPAGER, "model", "make", "--net", network["network"], "-o", folder)
            (folder / f"{network['network']}.weights").unlink()
        costs = [simulated(it, folder, it["configurations"][0]["delay_ns_median"] / 1e6) for it in networks]
        average = {disk: {column: statistics.mean(it[disk][column] for it in costs) for column in costs[0][disk]}
                   for disk in costs[0]}
        table(f"{len(networks)} networks, kernels as measured, on average:", average)
        name, kernels_ms = PAPER
        papers = next(it for it in networks if it["network"] == name)
        table(f"{name}, kernels as on the paper's board ({kernels_ms} ms):", simulated(papers, folder, kernels_ms))


main()
