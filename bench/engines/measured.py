"""What the Python engines here have in common: exact digests, times, and where the memory is.

An engine is a released package that nobody changed; the programs beside this file drive it and know nothing
of weightpager. Each prints one JSON object as its last line:

  digest               SHA-256 over the exact bytes of everything that was computed
  load_s, pass_s       seconds of loading, and of each pass; pass_s_median leaves the first one out
  load_read_bytes, pass_read_bytes   what the process read from disks while it loaded, and in each pass: page
                       faults and the pager's reads alike
  rss_max_bytes        peak resident memory of the process, shared file pages included
  rss_anon_bytes       anonymous memory at the end
  model_mapped_bytes   pages of the model's files in memory at the end
  model_written_bytes  those that the engine made its own by writing to a private mapping
  rss_own_bytes        the peak less the pages of the model: what the engine needs for itself

Under weightpager the model's pages are the window's, without a name: only the first four mean something there.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import statistics
import time

MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)$")


def parser_for(documentation, model="the model's file or folder"):
    """Options that all of these programs have."""
    parser = argparse.ArgumentParser(description=documentation,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help=model)
    parser.add_argument("--passes", type=int, default=4, help="over all weights (default %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser


def status_bytes(key):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def bytes_read():
    """From disks, since the process began, by all of its threads."""
    found = re.search(r"^read_bytes: (\d+)$", pathlib.Path("/proc/self/io").read_text(), re.MULTILINE)
    return int(found.group(1))


def mapped_bytes(files):
    """(pages of the files in memory, those of them that are anonymous because they were written)."""
    names, inside, resident, written = {str(file) for file in files}, False, 0, 0
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        mapping = MAPPING.match(line)
        if mapping:
            inside = mapping.group(1) in names
        elif inside and line.startswith("Rss:"):
            resident += int(line.split()[1]) * 1024
        elif inside and line.startswith("Anonymous:"):
            written += int(line.split()[1]) * 1024
    return resident, written


def bytes_of(array):
    """The exact bytes of a tensor or an array."""
    if hasattr(array, "detach"):
        import torch
        array = array.detach().contiguous().view(torch.uint8).numpy()
    return array.tobytes()


class Measured:
    """One run of one engine: what it computed, and when."""

    def __init__(self, engine, files):
        self._engine = engine
        self._files = [pathlib.Path(file).resolve() for file in files]
        self._digest = hashlib.sha256()
        self._begin = time.perf_counter()
        self._load_s = None
        self._load_read_bytes = None
        self._pass_s = []
        self._pass_read_bytes = []
        self._read_bytes = bytes_read()

    def _lap(self):
        now = time.perf_counter()
        elapsed, self._begin = now - self._begin, now
        return round(elapsed, 6)

    def _read(self):
        now = bytes_read()
        read, self._read_bytes = now - self._read_bytes, now
        return read

    def loaded(self):
        self._load_s = self._lap()
        self._load_read_bytes = self._read()

    def computed(self, *arrays):
        for array in arrays:
            self._digest.update(bytes_of(array))

    def passed(self):
        self._pass_s.append(self._lap())
        self._pass_read_bytes.append(self._read())

    def print(self, **more):
        mapped, written = mapped_bytes(self._files)
        peak = status_bytes("VmHWM")
        print(json.dumps({
            "engine": self._engine,
            "digest": self._digest.hexdigest(),
            "load_s": self._load_s,
            "pass_s": self._pass_s,
            "load_read_bytes": self._load_read_bytes,
            "pass_read_bytes": self._pass_read_bytes,
            "pass_s_median": statistics.median(self._pass_s[1:] or self._pass_s),
            "model_bytes": sum(file.stat().st_size for file in self._files),
            "rss_max_bytes": peak,
            "rss_anon_bytes": status_bytes("RssAnon"),
            "model_mapped_bytes": mapped,
            "model_written_bytes": written,
            "rss_own_bytes": peak - mapped + written,
            **more,
        }), flush=True)
