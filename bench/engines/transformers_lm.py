#!/usr/bin/env python3
"""A causal language model of transformers on CPU, greedy: the tokens and the exact logits of each.

The prompt is a fixed run of token numbers, so that synthetic models serve as well as real ones, and no token
ends the text: a pass is one token, the first pass the whole prompt. --offload FOLDER is the comparison: the
same model with all of its weights on disk, brought in layer by layer by accelerate's disk_offload. --dtype float32
converts a model of bfloat16 when it is loaded, into memory of the engine's own.

    transformers_lm.py --model DIR [--passes 8] [--threads N] [--dtype bfloat16] [--offload FOLDER]
"""

import pathlib

import measured

options_parser = measured.parser_for(__doc__, "a folder with config.json and *.safetensors")
options_parser.add_argument("--offload", metavar="FOLDER", help="leave the weights on disk, by accelerate")
options_parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
options = options_parser.parse_args()

import torch  # noqa: E402  (imports take seconds: after the options are known to be right)
import transformers  # noqa: E402

PROMPT_TOKENS = 8


def load():
    placed = {}
    if options.offload:
        placed = {"device_map": {"": "disk"}, "offload_folder": options.offload}
    return transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=getattr(torch, options.dtype),
                                                             local_files_only=True, **placed).eval()


class PassClock(transformers.StoppingCriteria):
    """Called after each token; never stops anything."""

    def __call__(self, input_ids, scores, **_):
        run.passed()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


def prompt(vocabulary_size):
    first = 3  # past the control tokens
    numbers = [first + (i * 7919 + 17) % (vocabulary_size - first) for i in range(PROMPT_TOKENS)]
    return torch.tensor([numbers])


torch.set_num_threads(options.threads)
transformers.utils.logging.disable_progress_bar()
run = measured.Measured("transformers" + ("-offload" if options.offload else "") + f"-{options.dtype}",
                        sorted(pathlib.Path(options.model).glob("*.safetensors")))
model = load()
run.loaded()
input_ids = prompt(model.config.vocab_size)
with torch.inference_mode():
    made = model.generate(input_ids, attention_mask=torch.ones_like(input_ids), do_sample=False,
                          max_new_tokens=options.passes, min_new_tokens=options.passes, eos_token_id=None,
                          pad_token_id=0, output_logits=True, return_dict_in_generate=True,
                          stopping_criteria=[PassClock()])
run.computed(made.sequences, *made.logits)
run.print(tokens=made.sequences[0, PROMPT_TOKENS:].tolist())
