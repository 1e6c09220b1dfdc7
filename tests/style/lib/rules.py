#!/usr/bin/env python3
"""The rules of CONTRIBUTING.md that a program can check.

    tests/style/lib/rules.py [--exceptions FILE] [FOLDER]

Looks at FOLDER (this project), prints one line for each breach, with what mends it, and ends with 1 if there
are any. A breach that FILE (tests/style/exceptions.txt) lists is none; an exception that nothing needs is one.
What is declared where is read by Universal Ctags, in a few seconds, without compiling anything.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PRODUCT = ("pager", "runtime", "tools")
CODE = (*PRODUCT, "bench", "tests")
CPP = {".cc", ".h", ".hpp", ".cu"}
FUNCTION_LINES_MAX = 70
METHODS_MAX = 40
FIELDS_MAX = 25
DOCUMENT_COLUMNS_MAX = 120
# What all share; none of these knows another but base.
GROUND_FLOOR = ("pager/base", "pager/io", "pager/spill", "pager/telemetry", "pager/model")
# Each may include itself and what stands before it. kmod has one header, which the kernel shares.
STOREYS = ("kmod", "pager", "runtime", "tools", "tests", "bench")
# The rooms of tools/, in the same way; the folders in tools/commands are one room.
TOOLS = ("cli", "terminal", "report", "formats", "probes", "arguments", "live", "commands", "manual")
# By the compiler, the linker, the frameworks of tests and benchmarks.
CALLED_BY_OTHERS = re.compile(r"main$|operator\b|~|TEST|BENCHMARK|__")


@dataclasses.dataclass(frozen=True)
class Breach:
    rule: str
    what: str  # as an exception names it
    where: str
    says: str


class Project:
    """The files of a folder, and what ctags finds in them."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        for path in sorted(self._files()):
            self.texts[path.relative_to(root).as_posix()] = path.read_text(errors="replace")
        # What our libraries show to others.
        self.symbols = [it.read_text() for it in (root / "tests/package").glob("*.symbols")]
        self.code = [path for path in self.texts if pathlib.Path(path).suffix in CPP]
        self.tags = self._tags() if self.code else []

    def _files(self):
        for folder in (*CODE, "docs", "kmod"):
            yield from (it for it in (self.root / folder).rglob("*") if it.is_file() and it.suffix in CPP | {".md"})
        yield from self.root.glob("*.md")

    def _tags(self):
        command = ["ctags", "--output-format=json", "--fields=+nekKSZ", "--fields-C++=+{properties}", "--kinds-C++=+p"]
        command += ["--langmap=C++:+.cu", "-L", "-", "-f", "-"]
        found = subprocess.run(command, input="\n".join(self.code), text=True, cwd=self.root, stdout=subprocess.PIPE)
        tags = [json.loads(line) for line in found.stdout.splitlines()]
        if found.returncode != 0 or not tags:
            sys.exit("rules.py: ctags found nothing: apt-get install universal-ctags (with JSON)")
        return tags

    def of_kind(self, *kinds, folders=CODE):
        return (it for it in self.tags if it["kind"] in kinds and it["path"].split("/")[0] in folders)

    def folder(self, path):
        return path.rsplit("/", 1)[0]


def place(tag):
    return f"{tag['path']}:{tag['line']}"


def long_functions(project):
    for it in project.of_kind("function"):
        lines = it["end"] - it["line"] + 1 if "end" in it else 0
        name = it["name"]
        if name.startswith("TEST"):
            name = ".".join(word.strip() for word in it.get("signature", "").strip("()").split(","))
        if lines > FUNCTION_LINES_MAX:
            says = f"{name} has {lines} lines, {FUNCTION_LINES_MAX} at most: give its parts names"
            yield Breach("function-lines", name, place(it), says)


def large_classes(project):
    where, methods, fields = {}, collections.defaultdict(set), collections.Counter()
    for it in project.of_kind("class", "struct"):
        where[f"{it['scope']}::{it['name']}" if "scope" in it else it["name"]] = place(it)
    for it in project.of_kind("function", "prototype", "member"):
        scope = it.get("scope", "")
        name = scope.rsplit("::", 1)[-1]
        if it.get("scopeKind") not in ("class", "struct") or it["path"] != where.get(scope, "").rsplit(":", 1)[0]:
            continue
        if it["kind"] == "member":
            fields[scope] += "static" not in it.get("properties", "")
        elif it["name"] not in (name, "~" + name) and not it["name"].startswith("operator"):
            methods[scope].add((it["name"], it.get("signature")))
    for scope, place_of_it in where.items():
        name = scope.rsplit("::", 1)[-1]
        for rule, what, count, most in (
            ("class-methods", "methods", len(methods[scope]), METHODS_MAX),
            ("class-fields", "fields", fields[scope], FIELDS_MAX),
        ):
            if count > most:
                says = f"{name} has {count} {what}, {most} at most: make a class of a part of it"
                yield Breach(rule, name, place_of_it, says)


def bare(text):
    """Without comments and strings."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def uncalled_functions(project):
    """Those whose name stands nowhere but where they are declared. Tests do not count as callers."""
    words = collections.Counter()
    for path in project.code:
        if not path.startswith("tests/"):
            words.update(re.findall(r"[A-Za-z_]\w*", bare(project.texts[path])))
    exported = set(re.findall(r"\w+", "".join(project.symbols)))
    declared = collections.defaultdict(list)
    for it in project.of_kind("function", "prototype", folders=(*PRODUCT, "bench")):
        declared[it["name"]].append(it)
    for name, tags in declared.items():
        is_of_others = any(
            "/include/" in it["path"] or "override" in it.get("properties", "") or "structor" in it.get("pattern", "")
            for it in tags
        )
        if words[name] <= len(tags) and not is_of_others and name not in exported and not CALLED_BY_OTHERS.match(name):
            yield Breach("uncalled", name, place(tags[0]), f"nothing but tests calls {name}: remove it, or move it there")


def names_given_twice(project):
    places = collections.defaultdict(set)
    for it in project.of_kind("class", "struct", "enum", "typedef", "union", folders=PRODUCT):
        is_seen_everywhere = it["path"].endswith(".h") and it.get("scopeKind") in (None, "namespace")
        if is_seen_everywhere and "/include/" not in it["path"] and "__anon" not in it["name"]:
            places[it["name"]].add(place(it))
    for name, found in sorted(places.items()):
        if len(found) > 1:
            first, *others = sorted(found)
            says = f"{name} is the name of another type, too ({', '.join(others)}): give one of them a name of its own"
            yield Breach("name-twice", name, first, says)


def includes(project):
    """Of each file: the line, and the project's file that it includes."""
    for path in project.code:
        for number, line in enumerate(project.texts[path].splitlines(), 1):
            found = re.match(rf'#include "((?:{"|".join(STOREYS)})/[^"]+)"', line)
            if found:
                yield path, f"{path}:{number}", found.group(1)


def strays_of_tools(project):
    """Code in tools/ is in a room, but for main()."""
    for path in project.code:
        if path.startswith("tools/") and room_of_tools(path) is None and path != "tools/main.cc":
            says = f"it is in no room of tools/: move it to one of {', '.join(TOOLS)}"
            yield Breach("room", path, path, says)


def room_of_tools(path):
    """Its number; none for what is in no room."""
    folder, *rest = path.split("/")
    return TOOLS.index(rest[0]) if folder == "tools" and rest and rest[0] in TOOLS else None


def includes_upwards(project):
    knows = collections.defaultdict(dict)
    for path, where, included in includes(project):
        storey, other = path.split("/")[0], included.split("/")[0]
        own, its = project.folder(path), project.folder(included)
        if own != its and storey in PRODUCT:
            knows[own].setdefault(its, where)
        if STOREYS.index(other) > STOREYS.index(storey):
            says = f"{storey}/ includes {included}, but {other}/ stands on {storey}/: move one of them"
            yield Breach("include", path, where, says)
        elif own in GROUND_FLOOR and its not in (own, GROUND_FLOOR[0]):
            says = f"{own} is ground floor and includes {included}: it may know only {GROUND_FLOOR[0]}"
            yield Breach("include", path, where, says)
        own_room, its_room = room_of_tools(path), room_of_tools(included)
        if own_room is not None and its_room is not None and its_room > own_room:
            says = f"tools/{TOOLS[own_room]} stands below tools/{TOOLS[its_room]} and includes {included}: move one"
            yield Breach("include", path, where, says)
    yield from circles(knows)


def circles(knows):
    """Folders that know each other, whichever way round."""
    for own in knows:
        for its in sorted(knows[own]):
            way = way_back(knows, its, own)
            if way and own == min(way):
                says = f"{own} includes {' which includes '.join(way)}: one of these arrows has to go"
                yield Breach("include", own, knows[own][its], says)


def way_back(knows, begin, end):
    ways = collections.deque([[begin]])
    seen = {begin}
    while ways:
        way = ways.popleft()
        if way[-1] == end:
            return way
        for it in knows.get(way[-1], {}):
            if it not in seen:
                seen.add(it)
                ways.append([*way, it])
    return None


def wide_documents(project):
    """Lines of text and of commands; rows of tables and links cannot be divided."""
    for path, text in project.texts.items():
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > DOCUMENT_COLUMNS_MAX and not line.startswith("|") and " " in line.strip():
                says = f"{len(line)} columns, {DOCUMENT_COLUMNS_MAX} at most: break the line"
                yield Breach("columns", path, f"{path}:{number}", says)


def unannotated_mutexes(project):
    bare_type = re.compile(r"std::(mutex|shared_mutex|condition_variable|lock_guard|unique_lock|scoped_lock)\b")
    for path in project.code:
        if path.split("/")[0] not in PRODUCT or path == "pager/base/mutex.h":
            continue
        for number, line in enumerate(project.texts[path].splitlines(), 1):
            if bare_type.search(line):
                says = "Clang cannot check it: use Mutex, MutexLock and Condition of pager/base/mutex.h"
                yield Breach("mutex", path, f"{path}:{number}", says)


def skips_without_a_lack(project):
    for path in project.code:
        for number, line in enumerate(project.texts[path].splitlines(), 1):
            if "GTEST_SKIP" in line and path != "tests/base/lacks.h":
                yield Breach("skip", path, f"{path}:{number}", "say what the machine lacks: WP_SKIP_FOR(lack)")


RULES = (
    long_functions,
    large_classes,
    uncalled_functions,
    names_given_twice,
    includes_upwards,
    strays_of_tools,
    unannotated_mutexes,
    skips_without_a_lack,
    wide_documents,
)


def read_exceptions(path):
    lines = path.read_text().splitlines()
    return {tuple(line.split()[:2]) for line in lines if line.strip() and not line.startswith("#")}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", nargs="?", type=pathlib.Path, default=HERE.parents[2])
    options.add_argument("--exceptions", type=pathlib.Path, default=HERE.parent / "exceptions.txt")
    given = options.parse_args()
    exceptions = read_exceptions(given.exceptions)
    project = Project(given.folder)
    breaches = [it for rule in RULES for it in rule(project)]
    for it in breaches:
        if (it.rule, it.what) not in exceptions:
            print(f"{it.where}: {it.rule}: {it.says}")
    needless = exceptions - {(it.rule, it.what) for it in breaches}
    for rule, what in sorted(needless):
        print(f"{given.exceptions}: {rule} {what}: nothing needs this exception any more: remove its line")
    return 1 if needless or any((it.rule, it.what) not in exceptions for it in breaches) else 0


if __name__ == "__main__":
    sys.exit(main())
