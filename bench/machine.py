"""What a benchmark must say about the machine it ran on, and what that machine's disk can do.

A figure without its disk ceiling, readahead, kernel and CPU cannot be compared with anything. Everything
here is read from the running system in the same run; nothing is assumed. Python's standard library only.
"""

import contextlib
import datetime
import json
import mmap
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

CHUNK_BYTES = 2 << 20


def first_match(path, prefix):
    """The text after 'prefix…:' in a file such as /proc/cpuinfo, or None."""
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(prefix):
            return line.split(":", 1)[1].strip()
    return None


def read_text(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return None


def queue_of(path):
    """The folder of the disk's settings in sysfs; a partition has none of its own. None: not a disk."""
    device = os.stat(path).st_dev
    folder = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    for queue in (folder / "queue", folder.resolve().parent / "queue"):
        if queue.is_dir():
            return queue
    return None


def readahead_kib(path):
    queue = queue_of(path)
    return int((queue / "read_ahead_kb").read_text()) if queue else None


def end_by_finally():
    """A run that is told to end must end by way of what puts things back."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))


@contextlib.contextmanager
def swap_file(folder, length_bytes):
    """The kernel swaps to a file in the folder for the time of a run (root). Nothing is left of it, whatever happens."""
    end_by_finally()
    path = pathlib.Path(tempfile.mkdtemp(dir=folder, prefix="swap.")) / "file"
    try:
        path.touch(mode=0o600)
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, length_bytes)
        for command in (["mkswap", path], ["swapon", path]):
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{done.stderr.strip()}: run as root, on a disk that may hold a swap file")
        yield
    finally:
        subprocess.run(["swapoff", path], stderr=subprocess.DEVNULL)
        shutil.rmtree(path.parent)


@contextlib.contextmanager
def readahead(path, kib):
    """Sets the disk's readahead for the time of a run and puts it back, whatever happens."""
    if kib is None:
        yield
        return
    queue = queue_of(path)
    if queue is None:
        raise SystemExit(f"{path} lies on no disk with a readahead of its own: leave out --readahead")
    setting = queue / "read_ahead_kb"
    before = setting.read_text()
    try:
        setting.write_text(str(kib))
    except OSError as error:
        raise SystemExit(f"{setting}: {error.strerror}: run as root, or leave out --readahead") from error
    end_by_finally()
    try:
        yield
    finally:
        setting.write_text(before)


def filesystem_of(path):
    """Type of the file system, from the longest mount point above the path."""
    path = os.path.realpath(path)
    mounts = [line.split() for line in read_text("/proc/self/mounts").splitlines()]
    above = [m for m in mounts if path == m[1] or path.startswith(m[1].rstrip("/") + "/")]
    return max(above, key=lambda mount: len(mount[1]))[2]


def facts(model):
    pages = read_text("/sys/kernel/mm/transparent_hugepage/enabled") or "[unknown]"
    return {
        "kernel": platform.release(),
        "cpu": first_match("/proc/cpuinfo", "model name"),
        "cpus": os.cpu_count(),
        "memory_bytes": int(first_match("/proc/meminfo", "MemTotal").split()[0]) * 1024,
        "huge_pages": pages.split("[")[1].split("]")[0],
        "filesystem": filesystem_of(model),
        "readahead_kib": readahead_kib(model),
        "load_average": os.getloadavg()[0],
    }


def commit_of(weightpager):
    """What this binary was built from, which need not be what is checked out."""
    version = subprocess.run([str(weightpager), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"\(commit (.+)\)", version).group(1)


def report_head(weightpager, schema_version):
    """With what a report of this binary's doings begins."""
    return {"schema_version": schema_version, "date": datetime.date.today().isoformat(),
            "commit": commit_of(weightpager), "kernel": platform.release(),
            "processor": first_match("/proc/cpuinfo", "model name")}


def drop_page_cache(path):
    """Forgets what the page cache holds of a file that nobody has mapped."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def warm_memory(length_bytes):
    """Touches so much free memory. The host of a virtual machine may have taken it back, and gives it again page by page:
    0.4 GB/s were seen, where memory that was touched within the last second or two is cleared at 10 GB/s."""
    zeros = bytes(CHUNK_BYTES)
    with mmap.mmap(-1, length_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for begin in range(0, length_bytes - CHUNK_BYTES + 1, CHUNK_BYTES):
            memory[begin:begin + CHUNK_BYTES] = zeros


def direct_bandwidth(path):
    """Bytes per second of direct reads of the whole file: 2 MiB each, 16 in flight, into huge pages."""
    return fio_bandwidth("read", f"--filename={path}", "--readonly", "--iodepth=16")


def direct_write_bandwidth(folder, length_bytes):
    """Bytes per second of direct writes to a new file there: 2 MiB each, 8 in flight. The file has its room before, as
    a spill file has."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, length_bytes)
        return fio_bandwidth("write", f"--filename={file.name}", f"--size={length_bytes}", "--iodepth=8")


def fio_bandwidth(direction, *options):
    """The tunable makes glibc ask for huge pages for fio's buffers; 4 KiB pages cost up to a fifth."""
    if not shutil.which("fio"):
        raise SystemExit("fio is missing, which measures what the disk can do: tools/install.sh --bench")
    command = ["fio", "--name=ceiling", f"--rw={direction}", "--bs=2M", "--ioengine=io_uring", "--direct=1",
               "--output-format=json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
    # fio prints notes in front of its JSON.
    report = json.loads(done.stdout[done.stdout.index("{"):])
    return report["jobs"][0][direction]["bw_bytes"]


def median(numbers):
    return statistics.median(numbers) if numbers else None
