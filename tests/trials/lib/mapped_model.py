"""A Python program that maps a safetensors file and reads it in processes of every kind.

mapped_model.py KIND FILE; KIND: subprocess, fork, spawn, pool
"""
import ctypes
import hashlib
import mmap
import multiprocessing
import os
import subprocess
import sys


def mapped_sum(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as weights:
        return hashlib.sha256(weights).hexdigest()


def raw_sum(path):
    """The same through libc's mmap, as extensions in C call it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                          ctypes.c_long]
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    return hashlib.sha256((ctypes.c_char * size).from_address(address)).hexdigest()


def report_sum(path, queue):
    queue.put(mapped_sum(path))


def in_process(context, path):
    queue = context.Queue()
    process = context.Process(target=report_sum, args=(path, queue))
    process.start()
    found = queue.get()
    process.join()
    return found


def main():
    kind, path = sys.argv[1:]
    if kind == "child":
        print(mapped_sum(path))
        return
    expected = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            expected.update(piece)
    expected = expected.hexdigest()

    with open(path, "rb") as file:
        weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    found = [hashlib.sha256(weights).hexdigest(), raw_sum(path)]
    if kind == "subprocess":
        command = [sys.executable, __file__, "child", path]
        found += [subprocess.check_output(command, text=True).strip() for _ in range(2)]
    elif kind == "pool":
        # Workers inherit the parent's mapping and make one of their own.
        with multiprocessing.get_context("fork").Pool(3) as pool:
            found += pool.map(mapped_sum, [path] * 6)
    else:
        context = multiprocessing.get_context(kind)
        found += [in_process(context, path) for _ in range(2)]
    found.append(hashlib.sha256(weights).hexdigest())
    sys.exit(0 if set(found) == {expected} else f"other bytes: {found}, expected {expected}")


if __name__ == "__main__":
    main()
