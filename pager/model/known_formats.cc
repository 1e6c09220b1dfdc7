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
  return find_format([&](const KnownFormat& it) {
    if (it.ending.empty() || path.size() < it.ending.size()) return false;
    const std::string_view end = path.substr(path.size() - it.ending.size());
    return strncasecmp(end.data(), it.ending.data(), end.size()) == 0;
  });
}

}  // namespace weightpager::model
