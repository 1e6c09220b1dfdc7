#!/usr/bin/env python3
"""Arrays in large blocks: read, converted, grown, copied and computed with; prints sums.

    tests/preload/lib/arrays.py FILE
"""
import io
import subprocess
import sys
import zlib

import numpy

path = sys.argv[1]
with open(path, "rb") as file:
    whole = file.read()
    print("read", len(whole), zlib.crc32(whole))
    file.seek(12345)
    room = bytearray(20 << 20)
    print("readinto", file.readinto(room), zlib.crc32(room), file.tell())
with open(path, "rb", buffering=0) as file:
    print("unbuffered", zlib.crc32(file.read(30 << 20)), file.tell(), zlib.crc32(file.read()))

from_file = numpy.fromfile(path, dtype=numpy.uint8, offset=777)
print("fromfile", from_file.size, zlib.crc32(from_file))
weights = (from_file[: 32 << 20].astype(numpy.float32) / 255).reshape(-1, 1024)
print("zeros", numpy.zeros(10 << 20).any(), numpy.zeros((4 << 20,), numpy.int64).any())
activations = numpy.linspace(0, 1, 1024, dtype=numpy.float32)
for _ in range(5):
    product = (weights * activations).clip(0.25, 0.75)
    print("product", zlib.crc32(product))
    activations = product[:1024].mean(axis=1)
grown = io.BytesIO()
for _ in range(100):
    grown.write(whole[: 1 << 20])
print("grown", zlib.crc32(grown.getvalue()))
numpy.save(grown := io.BytesIO(), weights)
print("saved", zlib.crc32(grown.getvalue()))
child = subprocess.run(["cat"], input=whole, stdout=subprocess.PIPE, check=True)
print("child", zlib.crc32(child.stdout))
