#!/usr/bin/env python3
"""Which of the skips in a report of ctest are not in tests/skips.txt.

    tests/style/lib/skips.py [--ci] REPORT.xml…

Prints them, one a line, and ends with 1 if there are any. --ci: what CI's machine has may not be lacking.
A test that skips and fails as well, which ctest counts as skipped, is one of them.
"""
import fnmatch
import pathlib
import re
import sys
import xml.etree.ElementTree

LIST = pathlib.Path(__file__).resolve().parents[2] / "skips.txt"


def read_list(path):
    """Of each line: where, the pattern of its tests, the pattern of their reason."""
    lines = path.read_text().splitlines()
    return [line.split(None, 2) for line in lines if line.strip() and not line.startswith("#")]


def reason_of(case):
    said = "".join(case.itertext())
    # GoogleTest says that a test failed; one that crashed after its skip says nothing at all.
    if "[  SKIPPED ]" in said and ("[  FAILED  ]" in said or "[  PASSED  ]" not in said):
        return "it failed as well"
    found = re.search(r"^\s*SKIPPED: (.*)$", said, re.MULTILINE)
    return found.group(1) if found else "no reason given (a line 'SKIPPED: REASON')"


def is_allowed(name, reason, entries, is_ci):
    return any(
        fnmatch.fnmatchcase(name, test) and fnmatch.fnmatchcase(reason, why + "*")
        for where, test, why in entries
        if where == "any" or not is_ci
    )


def skips_of(report):
    """Names, without the parameters that GoogleTest writes behind them, and reasons."""
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if case.get("status") in ("notrun", "disabled"):
            yield case.get("name").split("  #")[0], reason_of(case)


def main(arguments):
    is_ci = "--ci" in arguments
    entries = read_list(LIST)
    reports = [argument for argument in arguments if argument != "--ci"]
    wrong = [
        f"{name}: {reason}"
        for report in reports
        for name, reason in skips_of(report)
        if not is_allowed(name, reason, entries, is_ci)
    ]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
