#!/usr/bin/env python3
"""Links of documents lead somewhere, and what code, scripts and documents name in docs/ and bench/results/ is there.

A link is Markdown's, [words](path#heading). A name is docs/… or bench/results/… anywhere in a text file; in a name of
results * stands for anything, and names with DATE are those of files to come. Prints a line for each that leads nowhere; then the exit status is 1.

    tests/docs/lib/links.py [FOLDER]          the project, or another folder of files
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINK = re.compile(r"\]\(([^()\s]+)\)")
NAME = re.compile(r"(?<![\w/])(docs/[\w./-]+\.\w+|bench/results/[\w*.-]+\.json)")
TEXT = {".cc", ".h", ".c", ".py", ".sh", ".md", ".txt", ".cmake", ".cu", ".scd", ".json", ".hpp"}
BESIDE_SOURCES = re.compile(r"/(build[^/]*|\.git|node_modules|__pycache__)/")
# Old names stand in the history; the breaches of the tests' own scripts are made up.
NOT_LOOKED_AT = ("CHANGELOG.md", "bench/results/", "tests/docs/", "tests/style/")


def texts(root):
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in TEXT and path.is_file() and not BESIDE_SOURCES.search(f"/{name}"):
            yield path, name, path.read_text(errors="replace")


def without_code(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """As GitHub makes them of headings."""
    for heading in re.findall(r"^#+ +(.*)$", without_code(text), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def broken_links(path, text):
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", without_code(text))):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (path.parent / file).resolve() if file else path
        if not there.exists():
            yield target
        elif anchor and anchor not in anchors(there.read_text()):
            yield f"{target}: no such heading"


def missing_names(root, text):
    for name in NAME.findall(text):
        if "DATE" not in name and not any(root.glob(name)):
            yield name


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    found = []
    for path, name, text in texts(root):
        if name.startswith(NOT_LOOKED_AT):
            continue
        if path.suffix == ".md":
            found += [f"{name}: the link {it} leads nowhere" for it in broken_links(path, text)]
        found += [f"{name}: {it} is not there" for it in sorted(set(missing_names(root, text)))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
