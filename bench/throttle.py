"""A steady drive: the kernel's throttle of block devices (cgroup v1, blkio.throttle.*) sets the speed of what a group of
processes reads and writes there.

A shared disk gives twice as much in one minute as in the next, and a part of what it could have given is then a guess.
Behind a throttle below its worst, what it gives is known. Direct reads and writes are held to it, and what a process
swaps in; what the kernel writes later, as page cache or swap, is not.
"""

import contextlib
import os
import pathlib

import machine

GROUPS = pathlib.Path("/sys/fs/cgroup/blkio")


def lacks():
    """What is missing for a throttle here, by name."""
    return [what for what, is_there in [("root", os.geteuid() == 0), (f"{GROUPS} (cgroup v1)", GROUPS.is_dir())]
            if not is_there]


def device_of(path):
    """The whole disk under a path: partitions have no throttle."""
    number = os.stat(path).st_dev
    folder = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    disk = folder.resolve().parent if (folder / "partition").exists() else folder
    if not (disk / "dev").exists():
        raise SystemExit(f"{path} lies on no disk that the kernel can throttle: leave out --drive-speed")
    return (disk / "dev").read_text().strip()


class Throttle:
    """A cgroup whose processes use drives at set speeds. Context manager: it goes with the block, and who has entered
    it leaves it."""

    def __init__(self):
        self.folder = GROUPS / f"weightpager-throttle-{os.getpid()}"

    def __enter__(self):
        machine.end_by_finally()
        self.folder.mkdir()
        return self

    def __exit__(self, *_):
        for process in (self.folder / "cgroup.procs").read_text().split():
            (GROUPS / "cgroup.procs").write_text(process)
        self.folder.rmdir()

    def set(self, device, megabytes_per_second, directions=("read",)):
        for direction in directions:
            (self.folder / f"blkio.throttle.{direction}_bps_device").write_text(
                f"{device} {megabytes_per_second * 1_000_000}")

    def enter(self):
        """This process, and all that it starts from then on."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


# ---- For comparisons ----

def add_option(parser):
    parser.add_argument("--drive-speed", type=int, metavar="MB/S", help="what the disk is throttled to (root, cgroup v1)")


def check_option(parser, options):
    if options.drive_speed and lacks():
        parser.error(f"--drive-speed needs {' and '.join(lacks())}")


@contextlib.contextmanager
def steady(options, path):
    """This process and all that it starts have the disk under the path at the option's speed."""
    if not options.drive_speed:
        yield
        return
    with Throttle() as throttled:
        throttled.set(device_of(path), options.drive_speed, ("read", "write"))
        throttled.enter()
        yield


def lasting(bytes_per_second, drive_speed):
    """A measured bandwidth without what a throttle lets through in its first moments."""
    return min(bytes_per_second, drive_speed * 1e6) if drive_speed else bytes_per_second
