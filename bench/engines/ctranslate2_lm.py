#!/usr/bin/env python3
"""A language model of CTranslate2 on CPU, in F32, which reads its weights into memory of its own: greedy, a pass is one
token more, and of each the words' exact scores. make_model.py makes such a model.

    ctranslate2_lm.py --model DIR [--passes 4] [--threads N]
"""

import measured

options = measured.parser_for(__doc__, "a folder with model.bin").parse_args()

import ctranslate2  # noqa: E402  (imports take a while: after the options are known to be right)
import numpy  # noqa: E402

run = measured.Measured("ctranslate2", [options.model / "model.bin"])
generator = ctranslate2.Generator(str(options.model), device="cpu", compute_type="float32",
                                  intra_threads=options.threads, inter_threads=1)
run.loaded()
words = [3 + i * 79 for i in range(8)]
for _ in range(options.passes):
    scores = numpy.array(generator.forward_batch([words], return_log_probs=False))
    run.computed(scores)
    words = [*words[1:], int(scores[0, -1].argmax())]
    run.passed()
run.print(words=words)
