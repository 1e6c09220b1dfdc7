// safetensors: 8 bytes of header length, a JSON object that describes the tensors, their data.
//
// The format leaves no freedom, so everything is checked: sizes that follow from shape and type,
// data without holes or overlaps up to the last byte of the file. A type that is not known (new
// ones appear) is no error: such a tensor has the size that its offsets say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "pager/model/parsers.h"
#include "pager/model/strict_json.h"

namespace weightpager::model {
namespace {

constexpr uint64_t header_bytes_max = 100'000'000;
constexpr uint64_t length_field_bytes = 8;

struct ElementType {
  std::string_view name;
  uint32_t bits;
};

constexpr std::array<ElementType, 22> element_types{{
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"I16", 16},        {"U16", 16},        {"F16", 16},    {"BF16", 16},
    {"I32", 32},    {"U32", 32},        {"F32", 32},        {"I64", 64},    {"U64", 64},
    {"F64", 64},    {"C64", 64},
}};

uint32_t element_bits(std::string_view type) {
  const auto* const found =
      std::find_if(element_types.begin(), element_types.end(),
                   [&](const ElementType& candidate) { return candidate.name == type; });
  return found == element_types.end() ? 0 : found->bits;
}

/// One entry of the header, with the place in the text where it ended.
struct Entry {
  std::string name;
  std::string type;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> data_offsets;
  bool has_shape = false;
  uint64_t text_offset_bytes = 0;
};

/// {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, "__metadata__": {"key":
/// "text"}}
class HeaderHandler final : public JsonHandler {
 public:
  std::vector<Entry> entries;

  bool on_start(const JsonPath& path, bool is_object) override {
    if (path.size() <= 1 && is_object) {
      if (path.size() == 1 && path[0] != metadata_key) entries.push_back({.name = path[0]});
      return true;
    }
    if (path.size() == 2 && !is_object && path[0] != metadata_key) {
      if (path[1] == "shape") entries.back().has_shape = true;
      if (path[1] == "shape" || path[1] == "data_offsets") return true;
    }
    return unexpected(path, is_object ? "an object" : "an array");
  }

  bool on_end(const JsonPath& path) override {
    return path.size() != 1 || path[0] == metadata_key || complete(entries.back());
  }

  bool on_scalar(const JsonPath& path, const JsonScalar& value) override {
    const bool is_text = std::holds_alternative<std::string>(value);
    if (path.size() == 2 && path[0] == metadata_key && is_text) return true;
    if (path.size() == 2 && path[1] == "dtype" && is_text) {
      entries.back().type = std::get<std::string>(value);
      return true;
    }
    if (path.size() == 3 && std::holds_alternative<uint64_t>(value)) {
      auto& numbers = path[1] == "shape" ? entries.back().shape : entries.back().data_offsets;
      numbers.push_back(std::get<uint64_t>(value));
      return true;
    }
    return unexpected(path, describe(value));
  }

 private:
  static constexpr std::string_view metadata_key = "__metadata__";

  bool unexpected(const JsonPath& path, const std::string& found) {
    if (path.empty()) return refuse("an object of tensors", found);
    const std::string name = quote_name(path[0]);
    if (path[0] == metadata_key) return refuse("__metadata__ as an object of texts", found);
    if (path.size() == 1) return refuse(fmt::format("tensor {} as an object", name), found);
    if (path[1] == "dtype") return refuse(fmt::format("the dtype of {} as a text", name), found);
    if (path[1] == "shape" || path[1] == "data_offsets")
      return refuse(fmt::format("the {} of {} as numbers from 0 on", path[1], name), found);
    return refuse(fmt::format("dtype, shape and data_offsets of {}", name), quote_name(path[1]));
  }

  bool complete(Entry& entry) {
    entry.text_offset_bytes = offset_bytes();
    const std::string name = quote_name(entry.name);
    if (entry.type.empty() || !entry.has_shape)
      return refuse(fmt::format("dtype and shape of {}", name), "none");
    if (entry.data_offsets.size() != 2)
      return refuse(fmt::format("the two data_offsets of {}", name),
                    fmt::to_string(entry.data_offsets.size()));
    return true;
  }
};

class SafetensorsParser {
 public:
  explicit SafetensorsParser(HeaderReader& reader) : reader_(reader) {}

  Result<ParsedFile> parse() {
    if (!read_entries() || !check_types() || !check_places()) return reader_.take_error();
    ParsedFile parsed;
    parsed.format = Format::safetensors;
    parsed.file = {reader_.path(), reader_.size_bytes()};
    for (Entry& entry : entries_)
      parsed.tensors.push_back({.name = std::move(entry.name),
                                .type = std::move(entry.type),
                                .shape = std::move(entry.shape),
                                .offset_bytes = data_start_bytes_ + entry.data_offsets[0],
                                .size_bytes = entry.data_offsets[1] - entry.data_offsets[0]});
    return parsed;
  }

 private:
  bool read_entries();
  bool check_types();
  bool check_size(const Entry& entry, uint32_t bits);
  bool check_places();
  bool mismatch(const Entry& entry, std::string_view expected, std::string_view found) {
    return reader_.mismatch(length_field_bytes + entry.text_offset_bytes, expected, found);
  }

  HeaderReader& reader_;
  std::vector<Entry> entries_;
  uint64_t data_start_bytes_ = 0;
};

bool SafetensorsParser::read_entries() {
  const auto header_bytes = reader_.read<uint64_t>("the header's length");
  const std::string text = reader_.read_text(header_bytes, header_bytes_max, "a header");
  if (!reader_.ok()) return false;
  data_start_bytes_ = reader_.position_bytes();
  if (!text.starts_with('{'))
    return reader_.mismatch(length_field_bytes, "'{'", quote_name(text.substr(0, 1)));

  HeaderHandler handler;
  if (const auto error = parse_strict_json(text, handler))
    return reader_.mismatch(length_field_bytes + error->offset_bytes, error->expected,
                            error->found);
  entries_ = std::move(handler.entries);
  return true;
}

bool SafetensorsParser::check_types() {
  return std::all_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const uint32_t bits = element_bits(entry.type);
    if (bits != 0) return check_size(entry, bits);
    const uint64_t begin = entry.data_offsets[0];
    const uint64_t end = entry.data_offsets[1];
    return begin <= end ||
           mismatch(entry, fmt::format("data_offsets of {} in order", quote_name(entry.name)),
                    fmt::format("[{}, {}]", begin, end));
  });
}

bool SafetensorsParser::check_size(const Entry& entry, uint32_t bits) {
  const std::string name = quote_name(entry.name);
  uint64_t size_bits = bits;
  bool overflows = false;
  for (const uint64_t dimension : entry.shape)
    overflows |= __builtin_mul_overflow(size_bits, dimension, &size_bits);
  if (overflows)
    return mismatch(entry, fmt::format("a shape of {} of less than 2^64 bits", name),
                    fmt::format("{}", fmt::join(entry.shape, " x ")));
  if (size_bits % 8 != 0)
    return mismatch(entry, fmt::format("whole bytes for {}", name),
                    fmt::format("{} bits", size_bits));
  const uint64_t begin = entry.data_offsets[0];
  const uint64_t end = entry.data_offsets[1];
  if (begin > end || end - begin != size_bits / 8)
    return mismatch(
        entry,
        fmt::format("data_offsets of {} that are {} bytes apart, as dtype and shape say", name,
                    size_bits / 8),
        fmt::format("[{}, {}]", begin, end));
  return true;
}

/// The tensors, by offset, follow each other from 0 to the end of the file.
bool SafetensorsParser::check_places() {
  std::vector<uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return entries_[a].data_offsets < entries_[b].data_offsets;
  });
  uint64_t end = 0;
  for (const uint32_t index : order) {
    const Entry& entry = entries_[index];
    if (entry.data_offsets[0] != end)
      return mismatch(entry,
                      fmt::format("tensor {} at {}, where the tensor before it ends",
                                  quote_name(entry.name), end),
                      fmt::to_string(entry.data_offsets[0]));
    end = entry.data_offsets[1];
  }

  const uint64_t data_bytes = reader_.size_bytes() - data_start_bytes_;
  if (end == data_bytes) return true;
  return reader_.mismatch(
      data_start_bytes_, fmt::format("{} bytes of tensor data", end), fmt::to_string(data_bytes),
      end > data_bytes ? fmt::format("the file is {} bytes shorter than its tensors need; download "
                                     "it again",
                                     end - data_bytes)
                       : "the file has bytes that belong to no tensor; download it again");
}

}  // namespace

Result<ParsedFile> parse_safetensors(HeaderReader& reader) {
  return SafetensorsParser(reader).parse();
}

}  // namespace weightpager::model
