"""A comparison as a program: what each of bench/*_vs_mmap.py is asked, what its report begins with, how a promise is
judged, and where the report goes. What is measured in between is theirs.
"""

import argparse
import datetime
import json
import os
import pathlib
import re

import machine
from engine_runs import BUILD, PACKED, ROOT, WEIGHTPAGER, say


def whole_numbers(text):
    return [int(word) for word in text.split(",")]


def argument_parser(description, size, quick, threads=int):
    """The options that all have. The defaults are those of the tables in docs/; `quick` says what --quick takes;
    `threads` is the type of --threads."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default=size, help="of each model (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each arm in each place")
    parser.add_argument("--threads", type=threads, default=os.cpu_count())
    parser.add_argument("--output", type=pathlib.Path, help="of the JSON report")
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def parse(parser, counted, quick):
    """`counted` is the option that says how long a run is, `quick` what --quick sets."""
    options = parser.parse_args()
    if options.quick:
        vars(options).update(quick)
    if getattr(options, counted) < 3 or options.repeats < 1:
        parser.error(f"at least 3 {counted} and 1 repeat: medians need something to choose from")
    return options


def build_facts():
    """What was measured, and whether such a build may be measured at all."""
    if WEIGHTPAGER == PACKED:
        return {"commit": machine.commit_of(WEIGHTPAGER), "build_type": "packed", "optimised": True}
    cache = machine.read_text(BUILD / "CMakeCache.txt")
    if cache is None or not WEIGHTPAGER.exists():
        raise SystemExit(f"{WEIGHTPAGER} is missing: "
                         "cmake --preset release && cmake --build --preset release")
    value = dict(re.findall(r"^(CMAKE_BUILD_TYPE|WP_SANITIZE):\w+=(.*)$", cache, re.MULTILINE))
    build_type = value.get("CMAKE_BUILD_TYPE", "")
    return {
        "commit": machine.commit_of(WEIGHTPAGER),
        "build_type": build_type,
        "optimised": build_type in ("Release", "RelWithDebInfo") and not value.get("WP_SANITIZE"),
    }


def warn_if_busy():
    if os.getloadavg()[0] > 0.5:
        say(f"warning: load average {os.getloadavg()[0]:.1f}: something else runs here, figures will be off")


def new_report(benchmark, build, model, options, *said):
    """The report before anything was measured; `said` are the options that it repeats."""
    return {"benchmark": benchmark, "date": datetime.date.today().isoformat(), "build": build,
            "machine": machine.facts(model), "options": {name: getattr(options, name) for name in said}}


def opening(report):
    """The first words above a table."""
    facts, build = report["machine"], report["build"]
    return (f"{report['date']}, commit {build['commit']} ({build['build_type']}). Machine: kernel {facts['kernel']}, "
            f"{facts['cpus']} × {facts['cpu']}, {facts['memory_bytes'] / 1e9:.0f} GB, {facts['filesystem']}")


def promise_words(what, measured, wanted, larger=True):
    kept = measured is not None and (measured >= wanted if larger else measured <= wanted)
    return f"{what} {'≥' if larger else '≤'} {wanted}: {'kept' if kept else '**missed**'}"


def verdict(promises, report):
    """`promises`: (what, measured, wanted, whether larger is better) of all that was promised."""
    if report["options"]["quick"]:
        return ["not judged on a small model"]
    return [promise_words(*promise) for promise in promises]


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def publish(report, table, options, of_run=""):
    """Writes the report, to bench/results unless it is a quick one, and prints its table."""
    name = f"{report['date']}-{report['benchmark']}"
    usual = BUILD / f"{name}-quick.json" if options.quick else ROOT / f"bench/results/{name}{of_run}.json"
    path = options.output or usual
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    say(f"written: {path}")
    print(table)
