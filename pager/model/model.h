// What is in the files: tensors, the layers that they form, the experts among them.
//
// A model is one or more files. A parser (known_formats.h has a table of them) turns the files'
// headers into a list of tensors and never trusts them; layers.cc groups the tensors into layers
// and puts these into execution order, which is the order that the pager reads ahead in. Cost: one
// sequential read of the headers (some MiB); the weights themselves are never touched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::model {

/// known_formats.h has a row for each but the last: `plain` is a file of no known format.
enum class Format { gguf, safetensors, torch, plain };

/// How a pass uses a layer's tensors.
enum class Access {
  /// Every byte, once a pass: attention, feed-forward, output.
  whole,
  /// A few rows a pass, unforeseeable: token and position embeddings that only look rows up.
  sparse,
};

struct File {
  std::string path;
  uint64_t size_bytes = 0;
};

/// A named array in a model. `size_bytes` at `offset_bytes` of `files[file]`, checked to lie inside
/// it.
struct Tensor {
  std::string name;
  /// The format's own name for the element type: "F16", "Q4_K", "BF16", … A format without types
  /// has "U8".
  std::string type;
  /// As the file has it: GGUF's fastest dimension first, safetensors' slowest first. A format
  /// without types has the size in bytes as its only dimension.
  std::vector<uint64_t> shape;
  uint32_t file = 0;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

/// Tensors that execute together. `tensors` are indices into Model::tensors in execution order.
/// Every tensor is in one layer; only a token embedding that serves as output matrix, too ("tied"),
/// is in two: the sparse one at the start and the output layer at the end.
struct Layer {
  /// "embedding", "block 0" …, "output".
  std::string name;
  std::vector<uint32_t> tensors;
  Access access = Access::whole;
  uint64_t size_bytes = 0;
};

/// An expert's part of one tensor, in the tensor's file.
struct Slab {
  uint32_t tensor = 0;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

/// In a mixture-of-experts layer: the slabs (gate, up, down) that one router choice needs, in
/// execution order.
struct Expert {
  /// Index into Model::layers.
  uint32_t layer = 0;
  /// The router's number for it.
  uint32_t index = 0;
  std::vector<Slab> slabs;

  uint64_t size_bytes() const;
};

struct Model {
  Format format = Format::plain;
  /// "llama", "" if the file does not say.
  std::string architecture;
  std::vector<File> files;
  std::vector<Tensor> tensors;
  /// In execution order.
  std::vector<Layer> layers;
  /// By layer, then by index. Empty: every layer is used whole.
  std::vector<Expert> experts;
  /// Experts of a layer that a token uses; 0 if the file does not say.
  uint64_t experts_used = 0;

  /// The tensors' sizes, each counted once.
  uint64_t weight_bytes() const;
};

/// Reads the headers of the model that `path` belongs to: for one file of a split GGUF or of a
/// sharded safetensors model, of all its files (`path`'s siblings by name or by index.json). The
/// format is told by the content, not by the name; a file of no known format is a plain model with
/// one tensor and one layer. Errors name file, byte offset, what was expected and what was found.
/// Thread-safe.
Result<Model> open_model(const std::string& path);

/// Reads one file's header only, without its siblings: what the interposer needs when an engine
/// maps that file. Model::files has exactly one entry. Thread-safe.
Result<Model> open_model_file(const std::string& path);

/// The whole file as one layer, read from front to back: what is to be done with a file whose
/// format is not understood, but which an engine perhaps can read.
Model in_file_order(const std::string& path, uint64_t size_bytes);

/// open_model(), and with a notice in_file_order() where the model is not damaged but unknown.
Result<Model> open_model_to_page(const std::string& path);

/// KnownFormat::name, or "plain".
const char* format_name(Format format);

}  // namespace weightpager::model
