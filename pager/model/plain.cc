// A file of no known format: one tensor over all of it, read from front to back.
//
// A file whose name promises a known format but whose content is something else (a web page that
// was downloaded in its place, a Git LFS pointer) is refused: paging it would help nobody.
#include <array>

#include "pager/model/known_formats.h"

namespace weightpager::model {
namespace {

/// The file's first bytes as a person can recognise them.
std::string start_of(HeaderReader& reader) {
  std::array<std::byte, 16> bytes{};
  const size_t length = reader.peek_start(bytes);
  return quote_name({reinterpret_cast<const char*>(bytes.data()), length});
}

}  // namespace

Tensor whole_file_tensor(uint64_t size_bytes) {
  return {.name = "data", .type = "U8", .shape = {size_bytes}, .size_bytes = size_bytes};
}

Result<ParsedFile> parse_plain(HeaderReader& reader) {
  constexpr std::string_view hint =
      "it may be a web page or a pointer file instead of the model: look at its first lines, then "
      "download it again";
  if (const KnownFormat* const promised = format_by_ending(reader.path())) {
    reader.mismatch(0, promised->start, start_of(reader), hint);
    return reader.take_error();
  }

  ParsedFile parsed;
  parsed.format = Format::plain;
  parsed.file = {reader.path(), reader.size_bytes()};
  parsed.tensors = {whole_file_tensor(reader.size_bytes())};
  return parsed;
}

}  // namespace weightpager::model
