// The table's rows, and the search in them: see known_formats.h.
#include "pager/model/known_formats.h"

#include <strings.h>

#include <algorithm>
#include <array>

namespace weightpager::model {
namespace {

/// A length below 4 GiB, in eight bytes, then an opening brace.
bool begins_like_safetensors(std::string_view bytes) {
  constexpr std::string_view high_bytes_of_length("\0\0\0\0", 4);
  return bytes.size() == start_bytes && bytes.substr(4, 4) == high_bytes_of_length &&
         bytes[8] == '{';
}

/// A zip archive as PyTorch writes it, and hardly anyone else: needs version 0, has descriptors
/// and UTF-8 names, does not compress.
bool begins_like_torch(std::string_view bytes) {
  return bytes.starts_with(std::string_view("PK\3\4\0\0\x08\x08\0", start_bytes));
}

constexpr std::array<KnownFormat, 3> formats{{
    {.format = Format::gguf,
     .name = "gguf",
     .title = "GGUF",
     .ending = ".gguf",
     .start = "the bytes 'GGUF'",
     .begins_like = [](std::string_view bytes) { return bytes.starts_with("GGUF"); },
     .start_suffices = true,
     .parse = parse_gguf},
    {.format = Format::safetensors,
     .name = "safetensors",
     .title = "safetensors",
     .ending = ".safetensors",
     .start = "a safetensors header (8 bytes of length, then '{')",
     .begins_like = begins_like_safetensors,
     .start_suffices = false,
     .parse = parse_safetensors},
    {.format = Format::torch,
     .name = "torch",
     .title = "PyTorch checkpoint",
     .ending = "",
     .start = "a zip archive of PyTorch's",
     .begins_like = begins_like_torch,
     .start_suffices = false,
     .parse = parse_torch},
}};
static_assert(formats.size() == static_cast<size_t>(Format::plain), "a format has no row");

/// ONNX keeps large weights beside the graph, in a file without a header. PyTorch's exporter names
/// it model.onnx.data, Hugging Face's model.onnx_data.
constexpr std::array<std::string_view, 2> weights_endings{".onnx.data", ".onnx_data"};

bool has_ending(std::string_view path, std::string_view ending) {
  if (path.size() < ending.size()) return false;
  const std::string_view end = path.substr(path.size() - ending.size());
  return strncasecmp(end.data(), ending.data(), end.size()) == 0;
}

template <typename Predicate>
const KnownFormat* find_format(Predicate is_it) {
  const auto found = std::find_if(formats.begin(), formats.end(), is_it);
  return found == formats.end() ? nullptr : &*found;
}

}  // namespace

std::span<const KnownFormat> known_formats() { return formats; }

const KnownFormat* format_by_start(std::string_view bytes) {
  return find_format([&](const KnownFormat& it) { return it.begins_like(bytes); });
}

const KnownFormat* format_by_ending(std::string_view path) {
  return find_format(
      [&](const KnownFormat& it) { return !it.ending.empty() && has_ending(path, it.ending); });
}

std::span<const std::string_view> endings_of_weights() { return weights_endings; }

bool is_named_weights(std::string_view path) {
  return std::any_of(weights_endings.begin(), weights_endings.end(),
                     [&](std::string_view ending) { return has_ending(path, ending); });
}

}  // namespace weightpager::model
