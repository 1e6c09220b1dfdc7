#!/usr/bin/env python3
"""Models that `weightpager model make` does not make, of random weights from a seed, written by the engines' own
tools, so that the files are laid out as users have them.

    make_model.py torch --from DIR/model.safetensors -o model.pt    the same tensors as a PyTorch checkpoint
    make_model.py onnx --size 400MiB [--seed 1] -o model.onnx       a chain of F32 blocks, data in model.onnx.data
    make_model.py prepack --from model.onnx -o packed/model.onnx    the same with its matrices prepacked for this CPU
    make_model.py ctranslate2 --size 400MiB [--seed 1] -o DIR       a language model of CTranslate2's, F32

A prepacked model gives what the original gives, to the last bit: ONNX Runtime finds on disk what it would otherwise
make in memory at each load. Its file holds both layouts, of which only the packed one stays mapped.
"""

import argparse
import os
import pathlib
import re

WIDTH, INNER, ROWS = 1024, 4096, 4
WORDS = 1024


def size_of(text):
    match = re.fullmatch(r"(\d+)(MiB|GiB)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write it like 400MiB")
    return int(match.group(1)) << {"MiB": 20, "GiB": 30}[match.group(2)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    torch = kinds.add_parser("torch")
    torch.add_argument("--from", dest="source", type=pathlib.Path, required=True)
    onnx = kinds.add_parser("onnx")
    onnx.add_argument("--size", type=size_of, required=True)
    onnx.add_argument("--seed", type=int, default=1)
    prepack = kinds.add_parser("prepack")
    prepack.add_argument("--from", dest="source", type=pathlib.Path, required=True)
    ctranslate2 = kinds.add_parser("ctranslate2")
    ctranslate2.add_argument("--size", type=size_of, required=True)
    ctranslate2.add_argument("--seed", type=int, default=1)
    for kind in (torch, onnx, prepack, ctranslate2):
        kind.add_argument("-o", "--output", type=pathlib.Path, required=True)
    return parser.parse_args()


def make_torch(options):
    import safetensors.torch
    import torch
    torch.save(safetensors.torch.load_file(options.source), options.output)


def onnx_blocks(count, seed):
    """Each block: normalise, widen, ReLU, narrow, add to what came in. Two matrices of 16 MiB."""
    import numpy
    from onnx import helper, numpy_helper
    random = numpy.random.default_rng(seed)
    nodes, weights = [], [numpy_helper.from_array(numpy.ones(WIDTH, numpy.float32), "scale")]

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), numpy.float32) / numpy.float32(rows) ** 0.5
        weights.append(numpy_helper.from_array(values, name))
        return name

    previous = "input"
    for i in range(count):
        last = "output" if i == count - 1 else f"sum.{i}"
        nodes += [
            helper.make_node("LayerNormalization", [previous, "scale"], [f"normed.{i}"]),
            helper.make_node("MatMul", [f"normed.{i}", matrix(f"blocks.{i}.up", WIDTH, INNER)], [f"wide.{i}"]),
            helper.make_node("Relu", [f"wide.{i}"], [f"active.{i}"]),
            helper.make_node("MatMul", [f"active.{i}", matrix(f"blocks.{i}.down", INNER, WIDTH)], [f"narrow.{i}"]),
            helper.make_node("Add", [previous, f"narrow.{i}"], [last]),
        ]
        previous = last
    return nodes, weights


def make_onnx(options):
    import onnx
    from onnx import TensorProto, helper
    nodes, weights = onnx_blocks(max(1, options.size // (2 * 4 * WIDTH * INNER)), options.seed)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, WIDTH]) for name in ("input", "output")]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    data = options.output.with_name(options.output.name + ".data")
    data.unlink(missing_ok=True)  # the writer appends
    onnx.save_model(model, options.output, save_as_external_data=True, location=data.name,
                    all_tensors_to_one_file=True)


def make_prepacked(options):
    import onnxruntime
    session = onnxruntime.SessionOptions()
    session.log_severity_level = 3  # it warns, rightly, that the file is for CPUs like this one
    session.optimized_model_filepath = str(options.output)
    for key, value in (("optimized_model_external_initializers_file_name", options.output.name + ".data"),
                       ("optimized_model_external_initializers_min_size_in_bytes", "1024"),
                       ("save_external_prepacked_constant_initializers", "1")):
        session.add_session_config_entry(f"session.{key}", value)
    onnxruntime.InferenceSession(str(options.source), session, providers=["CPUExecutionProvider"])


def make_ctranslate2(options):
    """A decoder as Llama's: gated feed-forward parts, RMS norms, rotary positions. 64 MiB a layer."""
    import ctranslate2
    import numpy
    layers = max(1, options.size // (4 * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER)))
    specs = ctranslate2.specs
    model = specs.TransformerDecoderModelSpec.from_config(
        layers, WIDTH // 64, activation=specs.common_spec.Activation.SWISH, rms_norm=True, ffn_glu=True,
        rotary_dim=64, rotary_interleave=False)
    random = numpy.random.default_rng(options.seed)

    def matrix(rows, columns):
        return random.standard_normal((rows, columns), numpy.float32) / numpy.float32(columns) ** 0.5

    ones = numpy.ones(WIDTH, numpy.float32)
    decoder = model.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = matrix(WORDS, WIDTH)
    decoder.projection.weight = matrix(WORDS, WIDTH)
    decoder.layer_norm.gamma = ones
    for layer in decoder.layer:
        layer.self_attention.layer_norm.gamma = layer.ffn.layer_norm.gamma = ones
        layer.self_attention.linear[0].weight = matrix(3 * WIDTH, WIDTH)
        layer.self_attention.linear[1].weight = matrix(WIDTH, WIDTH)
        layer.ffn.linear_0.weight = matrix(INNER, WIDTH)
        layer.ffn.linear_0_noact.weight = matrix(INNER, WIDTH)
        layer.ffn.linear_1.weight = matrix(WIDTH, INNER)
    model.register_vocabulary(["<unk>", "<s>", "</s>", *(f"word{i}" for i in range(3, WORDS))])
    model.config.bos_token, model.config.eos_token, model.config.unk_token = "<s>", "</s>", "<unk>"
    model.config.layer_norm_epsilon = 1e-6
    model.validate()
    options.output.mkdir(exist_ok=True)
    model.save(str(options.output))


def main():
    options = parse_arguments()
    os.makedirs(options.output.parent, exist_ok=True)
    {"torch": make_torch, "onnx": make_onnx, "prepack": make_prepacked,
     "ctranslate2": make_ctranslate2}[options.kind](options)


main()
