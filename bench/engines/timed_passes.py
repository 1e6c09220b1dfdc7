"""An engine that goes over its weights again and again, and prints when each pass ended and how long it took.

timed_passes.py FILE     until it is killed; a line a pass: CLOCK_MONOTONIC seconds, seconds of the pass
"""
import mmap
import sys
import time
import zlib

PIECE = 1 << 20

with open(sys.argv[1], "rb") as file:
    weights = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
while True:
    begin = time.monotonic()
    for at in range(0, len(weights), PIECE):
        zlib.crc32(weights[at:at + PIECE])
    end = time.monotonic()
    print(end, end - begin, flush=True)
