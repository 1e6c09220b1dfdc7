#!/usr/bin/env python3
"""A GGUF file in another type, quantised by released llama.cpp's own library: mixtures such as Q4_K_M, whose types
`weightpager model make` does not mix. The file is laid out as its users have it.

    quantize.py --library LIBLLAMA --type Q4_K_M --from f16.gguf -o q4_k_m.gguf
"""

import argparse
import ctypes
import pathlib

TYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18}  # llama_ftype


class Parameters(ctypes.Structure):
    """The beginning of llama_model_quantize_params, and room for the rest."""

    _fields_ = [("threads", ctypes.c_int32), ("type", ctypes.c_int32), ("rest", ctypes.c_byte * 248)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libllama.so*; libggml-* beside it")
    parser.add_argument("--type", choices=TYPES, required=True)
    parser.add_argument("--from", dest="source", type=pathlib.Path, required=True)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    return parser.parse_args()


def main():
    options = parse_arguments()
    for name in ("libggml-base.so", "libggml.*.so"):
        for found in options.library.parent.glob(name):
            ctypes.CDLL(str(found), mode=ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(str(options.library), mode=ctypes.RTLD_GLOBAL)
    llama.llama_model_quantize_default_params.restype = Parameters
    parameters = llama.llama_model_quantize_default_params()
    parameters.type = TYPES[options.type]
    failed = llama.llama_model_quantize(bytes(options.source), bytes(options.output), ctypes.byref(parameters))
    if failed:
        raise SystemExit(f"quantize.py: {options.library} could not quantise {options.source}")


main()
