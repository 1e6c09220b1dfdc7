#!/usr/bin/env python3
"""The five networks of Demand Layering (Ji et al., RTSS 2022) in every pipeline: memory for weights against delay.

Each network is made with random weights (the shapes, sizes and work are the real ones), packed, and run by
`weightpager bench pipelines`: the paper's five pipelines at their least windows, the minimal-delay windows of Async
and 2S, and 2S with layers in tiles, in windows that are shares of the weights, without and with the arena overlay;
these also against the floor that reading itself sets, "Pre + reads": everything in memory computes
while the same bytes are read and not used. All configurations of a network take turns in one process and must give the
same bits; medians count.

Reductions of memory are against Pre, which here is every weight once. (The paper's Pre has them twice, on the host and
on the device, so its reductions are larger for the same window.)

Writes bench/results/DATE-pipelines.json and prints Markdown; with --picture also draws Figures 12 and 13 (matplotlib).

    bench/pipelines.py                          the tables of docs/explanation/benchmarks.md (half an hour, a quiet machine)
    bench/pipelines.py --networks yolov4 --output build/yolov4.json      one network now, the others another time:
    bench/pipelines.py --networks yolov3 --with build/yolov4.json
    bench/pipelines.py --quick                  does it work at all
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile

import comparison
from engine_runs import WEIGHTPAGER, say, tool_output

NETWORKS = ("yolov3", "yolov4", "yolov4-p6", "resnet152", "densenet201")
SHARES = (3.5, 7.5)  # percent of the weights, with tiles


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="default %(default)s")
    parser.add_argument("--inferences", type=int, default=20, help="of each configuration (default %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--with", type=pathlib.Path, nargs="*", default=[], dest="earlier", metavar="FILE",
                        help="JSON reports of other networks, of the same commit and machine, to be told with these")
    parser.add_argument("--output", type=pathlib.Path, help="of the JSON report")
    parser.add_argument("--picture", type=pathlib.Path, help="draw memory against delay (SVG or PNG)")
    parser.add_argument("--quick", action="store_true", help="two small networks, twice")
    options = parser.parse_args()
    if options.quick:
        options.networks, options.inferences = "squeezenet,yolov3-tiny", 2
    return options


def made_network(name, folder):
    tool_output(WEIGHTPAGER, "model", "make", "--net", name, "-o", folder)
    cfg, weights, packed = (folder / f"{name}.{ending}" for ending in ("cfg", "weights", "packed"))
    tool_output(WEIGHTPAGER, "model", "pack", cfg, weights, "-o", packed)
    weights.unlink()
    return cfg, packed


def windows_of(cfg):
    """The shares of the network's weights, as --windows wants them."""
    folded_bytes = json.loads(tool_output(WEIGHTPAGER, "model", "show", "--json", cfg))["folded_bytes"]
    return ",".join(f"{int(folded_bytes * share / 100) // 1024}KiB" for share in SHARES)


def measure(name, folder, options):
    say(name)
    cfg, packed = made_network(name, folder)
    result = folder / f"{name}.json"
    tool_output(WEIGHTPAGER, "bench", "pipelines", cfg, packed, "--inferences", str(options.inferences), "--windows",
                windows_of(cfg), "--threads", str(options.threads), "--json", result)
    packed.unlink()
    network = json.loads(result.read_text())
    network.update(network=name, weights=None)
    return network


def networks_of_earlier(report, options):
    """What was measured before, of the same build on the same machine."""
    found = []
    for path in options.earlier:
        earlier = json.loads(path.read_text())
        same_facts = earlier["machine"] | {"load_average": 0} == report["machine"] | {"load_average": 0}
        if not same_facts or any(earlier[part] != report[part] for part in ("build", "options")):
            raise SystemExit(f"{path} is of another commit, machine or number of inferences: measure anew")
        found += earlier["networks"]
    return found


def percent_over(delay_ns, least_ns):
    return 100 * (delay_ns / least_ns - 1)


def evaluate(network):
    """Adds to each configuration what it saves and costs against Pre."""
    pre = network["configurations"][0]
    for it in network["configurations"]:
        it["reduction_percent"] = 100 * (1 - it["window_bytes"] / pre["window_bytes"])
        it["delay_percent"] = percent_over(it["delay_ns_median"], pre["delay_ns_median"])
        it["over_floor_percent"] = percent_over(it["delay_ns_median"], it["floor_ns"]) if it["floor_ns"] else None


def of_name(network, name, nth=0):
    return [it for it in network["configurations"] if it["name"] == name][nth]


def averages(report):
    """Of all networks, for each configuration that all have."""
    rows = [("Seq", 0), ("Sync", 0), ("Async", 0), ("2S", 0), ("Async-MD", 0), ("2S-MD", 0)]
    rows += [(name, nth) for nth in range(len(SHARES)) for name in ("Pre + reads", "2S tiles", "2S overlay")]
    found = []
    for name, nth in rows:
        these = [of_name(network, name, nth) for network in report["networks"]]
        found.append({"name": name, "reduction_percent": statistics.mean(it["reduction_percent"] for it in these),
                      "delay_percent": statistics.mean(it["delay_percent"] for it in these),
                      "over_floor_percent": statistics.mean(it["over_floor_percent"] for it in these)
                      if these[0]["floor_ns"] else None})
    return found


def signed(percent):
    return "–" if percent is None else f"{percent:+.1f} %"


def milliseconds(ns):
    return f"{ns / 1e6:.1f}"


def network_lines(network):
    lines = [f"### {network['network']}",
             f"{network['layers']} layers, {network['folded_bytes'] / 2**20:.1f} MiB of weights, "
             f"{network['activation_bytes'] / 2**20:.1f} MiB of activations.", "",
             "| pipeline | window MiB | saved | read MiB | delay ms, median (min–max) | against Pre | against Pre + reads "
             "| by equation ms |",
             "|---|---|---|---|---|---|---|---|"]
    for it in network["configurations"]:
        tiles = f", {it['pieces']} pieces" if it["pieces"] > network["layers"] else ""
        delays = it["delays_ns"]
        lines.append(f"| {it['name']}{tiles} | {it['window_bytes'] / 2**20:.2f} | {it['reduction_percent']:.1f} % "
                     f"| {it['read_bytes'] / 2**20:.1f} | {milliseconds(it['delay_ns_median'])} "
                     f"({milliseconds(delays[0])}–{milliseconds(delays[-1])}) | {signed(it['delay_percent'])} "
                     f"| {signed(it['over_floor_percent'])} "
                     f"| {milliseconds(it['predicted_ns']) if it['predicted_ns'] else '–'} |")
    return lines + [""]


def markdown(report):
    lines = [comparison.opening(report) + f". {report['options']['inferences']} inferences of each, "
             f"{report['options']['threads']} threads, {report['networks'][0]['reader']}.", ""]
    for network in report["networks"]:
        lines += network_lines(network)
    lines += ["### Averages", "", "| pipeline | saved | against Pre | against Pre + reads |", "|---|---|---|---|"]
    lines += [f"| {it['name']} | {it['reduction_percent']:.1f} % | {signed(it['delay_percent'])} "
              f"| {signed(it['over_floor_percent'])} |"
              for it in report["averages"]]
    return "\n".join(lines)


def draw(report, path):
    import matplotlib  # only here: who only measures need not have it
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
    figure, places = pyplot.subplots(1, len(report["networks"]), figsize=(4 * len(report["networks"]), 3.6), squeeze=False)
    marks = {"Pre": "s", "Seq": "v", "Sync": "^", "Async": "o", "2S": "D", "Async-MD": "P", "2S-MD": "X", "2S tiles": "*",
             "2S overlay": "p"}
    for place, network in zip(places[0], report["networks"]):
        for it in network["configurations"]:
            if it["name"] not in marks:  # a floor, which has no window of its own
                continue
            place.errorbar(it["window_bytes"] / 2**20, it["delay_ns_median"] / 1e6,
                           yerr=[[(it["delay_ns_median"] - it["delays_ns"][0]) / 1e6],
                                 [(it["delays_ns"][-1] - it["delay_ns_median"]) / 1e6]],
                           fmt=marks[it["name"]], color=f"C{list(marks).index(it['name'])}", markersize=7, capsize=2,
                           label=it["name"])
        place.set_xscale("log", base=2)
        place.xaxis.set_major_formatter(ticker.ScalarFormatter())
        place.set_title(network["network"])
        place.set_xlabel("memory for weights, MiB")
        place.set_ylim(bottom=0)
    places[0][0].set_ylabel("delay, ms (median, min–max)")
    handles, names = places[0][0].get_legend_handles_labels()
    unique = dict(zip(names, handles))
    places[0][0].legend(unique.values(), unique.keys(), fontsize="small", loc="lower center", ncol=3)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    say(f"drawn: {path}")


def main():
    options = parse_arguments()
    build = comparison.build_facts()
    comparison.warn_if_busy()
    with tempfile.TemporaryDirectory(dir=pathlib.Path.home()) as folder:
        folder = pathlib.Path(folder)
        report = comparison.new_report("pipelines", build, folder, options, "inferences", "threads", "quick")
        report["networks"] = networks_of_earlier(report, options)
        report["networks"] += [measure(name, folder, options) for name in options.networks.split(",") if name]
        report["networks"].sort(key=lambda it: (NETWORKS + (it["network"],)).index(it["network"]))
    for network in report["networks"]:
        evaluate(network)
    report["averages"] = averages(report)
    comparison.publish(report, markdown(report), options)
    if options.picture:
        draw(report, options.picture)


if __name__ == "__main__":
    main()
