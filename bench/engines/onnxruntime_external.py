#!/usr/bin/env python3
"""ONNX Runtime on a model with external data, CPU only. By default it copies matrices into a layout of its own at
load ("prepacking"); --no-prepacking sets session.disable_prepacking, which leaves them where they are mapped.
Each pass feeds the output of the last one. make_model.py makes such a model.

    onnxruntime_external.py --model model.onnx [--passes 4] [--threads N] [--no-prepacking]
"""

import measured

options_parser = measured.parser_for(__doc__, "the .onnx file; its data beside it")
options_parser.add_argument("--no-prepacking", action="store_true", help="leave the weights as they are")
options = options_parser.parse_args()

import numpy  # noqa: E402  (imports take seconds: after the options are known to be right)
import onnxruntime  # noqa: E402


def session_options():
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = options.threads
    made.inter_op_num_threads = 1
    if options.no_prepacking:
        made.add_session_config_entry("session.disable_prepacking", "1")
    return made


run = measured.Measured("onnxruntime" + ("-no-prepacking" if options.no_prepacking else ""),
                        [options.model.with_name(options.model.name + ".data")])
session = onnxruntime.InferenceSession(str(options.model), session_options(), providers=["CPUExecutionProvider"])
run.loaded()
entry = session.get_inputs()[0]
values = numpy.linspace(-1, 1, numpy.prod(entry.shape), dtype=numpy.float32).reshape(entry.shape)
for _ in range(options.passes):
    (values,) = session.run(None, {entry.name: values})
    run.computed(values)
    run.passed()
run.print()
