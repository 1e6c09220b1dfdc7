"""An engine whose own memory grows while it reads its weights: 96 MiB in steps of 2 MiB.

Every word of the weights is compared with the file, over and over; at the end the memory is given back and
the weights are gone through twice more.
"""

import hashlib
import mmap
import sys
import time

PIECE = 2 << 20


def digest_of_file(path):
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def digest_of_mapping(weights):
    digest = hashlib.sha256()
    for start in range(0, len(weights), PIECE):
        digest.update(weights[start:start + PIECE])
    return digest.hexdigest()


path = sys.argv[1]
expected = digest_of_file(path)
with open(path, "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
    ballast = []
    for step in range(48):
        ballast.append(bytearray(PIECE))
        ballast[-1][::4096] = b"x" * len(ballast[-1][::4096])
        time.sleep(0.01)
        if step % 8 == 0 and digest_of_mapping(weights) != expected:
            sys.exit("wrong bytes")
    ballast.clear()
    for _ in range(2):
        if digest_of_mapping(weights) != expected:
            sys.exit("wrong bytes")
