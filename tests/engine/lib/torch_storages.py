#!/usr/bin/env python3
"""Is each storage of a checkpoint where `weightpager model show` says? Python's zipfile reads the other side.

    torch_storages.py WEIGHTPAGER MODEL.pt
"""
import json
import subprocess
import sys
import zipfile

weightpager, path = sys.argv[1:]
shown = json.loads(subprocess.run([weightpager, "model", "show", "--json", path], stdout=subprocess.PIPE,
                                  check=True).stdout)
archive = zipfile.ZipFile(path)
storages = {name.split("/", 1)[1]: name for name in archive.namelist() if name.split("/")[-2] == "data"
            and name.split("/")[-1].isdigit()}
tensors = {tensor["name"]: tensor for tensor in shown["tensors"]}
assert shown["format"] == "torch" and tensors.keys() == storages.keys(), (shown["format"], storages.keys())
with open(path, "rb") as file:
    for name, tensor in tensors.items():
        file.seek(tensor["offset_bytes"])
        assert file.read(tensor["size_bytes"]) == archive.read(storages[name]), name
print(len(tensors), "storages")
