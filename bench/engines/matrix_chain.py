"""A network that is nothing but its matrices, in the order of its layers: the plainest pass over a model.

Each matrix multiplies what the one before it gave, folded to its width, so that one wrong byte anywhere
changes everything after it. It serves engines that bring a dictionary of tensors and no network.
"""

import re

import torch


def layer_order(name):
    """Files are sorted by name ("layers.10" before "layers.2"), computation is not."""
    number = re.search(r"\blayers\.(\d+)\.", name)
    if number:
        return (1, int(number.group(1)), name)
    return (0 if "embed" in name else 2, 0, name)


def folded(values, width):
    """A row of any length as a row of this one; every element counts."""
    missing = -values.numel() % width
    return torch.nn.functional.pad(values.flatten(), (0, missing)).view(-1, width).sum(0, keepdim=True)


def one_pass(tensors, values, measured):
    for name in sorted(tensors, key=layer_order):
        weight = tensors[name]
        if weight.dim() != 2:
            measured.computed(weight)
            continue
        values = torch.nn.functional.linear(folded(values, weight.shape[1]), weight)
        values = values / values.abs().amax().clamp_min(1e-6)
        measured.computed(values)
    return values


def run(tensors, passes, measured):
    dtype = next(tensor.dtype for tensor in tensors.values() if tensor.dim() == 2)
    values = torch.linspace(-1, 1, 1024, dtype=torch.float32).to(dtype)
    with torch.inference_mode():
        for _ in range(passes):
            values = one_pass(tensors, values, measured)
            measured.passed()
