"""Processes that map a model and end a moment later, each a little later than the one before: usage MODEL LIVES STEP_US.

Each is busy until it ends, so that on one processor its other threads are interrupted anywhere."""
import mmap
import os
import sys
import time

model, lives, step_us = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for life in range(lives):
    child = os.fork()
    if child == 0:
        with open(model, "rb") as file:
            weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        end_ns = time.monotonic_ns() + life * step_us * 1000
        while time.monotonic_ns() < end_ns:
            pass
        sys.exit()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"life {life} ended badly")
