#!/usr/bin/env python3
"""PyTorch on a safetensors file: load_file gives tensors that are views of the mapped file, or, with --numpy,
safetensors' NumPy loader, which copies. Then passes over all matrices (matrix_chain.py).

    torch_safetensors.py --model DIR/model.safetensors [--passes 4] [--threads N] [--numpy]
"""

import measured

options_parser = measured.parser_for(__doc__, "the .safetensors file")
options_parser.add_argument("--numpy", action="store_true", help="load through NumPy")
options = options_parser.parse_args()

import safetensors.numpy  # noqa: E402  (imports take seconds: after the options are known to be right)
import safetensors.torch  # noqa: E402
import torch  # noqa: E402

import matrix_chain  # noqa: E402


def load(path):
    if not options.numpy:
        return safetensors.torch.load_file(path)
    # NumPy learns of bfloat16 by this import, and PyTorch knows no NumPy type for it: the bits are handed over.
    import ml_dtypes  # noqa: F401
    arrays = safetensors.numpy.load_file(path)
    return {name: torch.from_numpy(array.view("uint16")).view(torch.bfloat16) for name, array in arrays.items()}


torch.set_num_threads(options.threads)
run = measured.Measured("safetensors-numpy" if options.numpy else "torch-safetensors", [options.model])
tensors = load(options.model)
run.loaded()
matrix_chain.run(tensors, options.passes, run)
run.print()
