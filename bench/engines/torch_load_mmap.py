#!/usr/bin/env python3
"""PyTorch on its own checkpoint format: torch.load(mmap=True) gives views of the mapped file, --no-mmap copies.
Then passes over all matrices (matrix_chain.py). make_model.py makes such a file.

    torch_load_mmap.py --model model.pt [--passes 4] [--threads N] [--no-mmap]
"""

import measured

options_parser = measured.parser_for(__doc__, "the .pt file")
options_parser.add_argument("--no-mmap", action="store_true", help="read instead of mapping")
options = options_parser.parse_args()

import torch  # noqa: E402  (takes seconds: after the options are known to be right)

import matrix_chain  # noqa: E402

torch.set_num_threads(options.threads)
run = measured.Measured("torch-load-read" if options.no_mmap else "torch-load-mmap", [options.model])
tensors = torch.load(options.model, mmap=not options.no_mmap, weights_only=True)
run.loaded()
matrix_chain.run(tensors, options.passes, run)
run.print()
