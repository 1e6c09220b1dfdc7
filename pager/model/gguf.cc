// GGUF, versions 2 and 3: magic, counts, key-value pairs, tensor infos, padding, tensor data.
//
// Of the pairs only a handful matter here; the rest (a vocabulary of 150,000 strings among them) is
// stepped over, so that a header costs a few ms. Counts and lengths are compared with the bytes
// that are left before anything depends on them. A tensor type that ggml does not have (engines
// invent their own) is no error: such a tensor reaches to the next one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "pager/base/units.h"
#include "pager/model/ggml_types.h"
#include "pager/model/parsers.h"

namespace weightpager::model {
namespace {

constexpr uint64_t alignment_bytes_default = 32;
constexpr uint64_t key_bytes_max = 65'535;
constexpr uint64_t architecture_bytes_max = 256;
constexpr uint64_t name_bytes_max = 1024;
/// ggml has 4; video models come with 5.
constexpr uint32_t dimensions_max = 8;

/// The shortest pair: an empty key's length, a type, one byte.
constexpr uint64_t pair_bytes_min = 8 + 4 + 1;
/// The shortest tensor info: an empty name's length, no dimensions, type, offset.
constexpr uint64_t tensor_info_bytes_min = 8 + 4 + 4 + 8;

enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
constexpr uint32_t value_types = 13;
/// Bytes of a value of each type; 0 for strings and arrays.
constexpr std::array<uint64_t, value_types> value_bytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/// Where a tensor's entry in the header starts, for errors, and what only the header needs.
struct TensorInfo {
  uint64_t header_offset_bytes = 0;
  /// From the start of the tensor data on.
  uint64_t data_offset_bytes = 0;
  /// False for a type that is not in the table: the size follows from the next tensor's offset.
  bool has_size = false;
};

class GgufParser {
 public:
  explicit GgufParser(HeaderReader& reader) : reader_(reader) {}

  Result<ParsedFile> parse() {
    if (read_counts() && read_pairs() && read_tensor_infos() && place_tensors()) {
      parsed_.format = Format::gguf;
      parsed_.file = {reader_.path(), reader_.size_bytes()};
      return std::move(parsed_);
    }
    return reader_.take_error();
  }

 private:
  bool read_counts();
  bool check_version(uint32_t version, uint64_t offset_bytes);
  /// A count of things that take `bytes_min` each in the rest of the file.
  uint64_t read_count(uint64_t bytes_min, std::string_view what);

  bool read_pairs();
  void read_pair(std::unordered_set<std::string>& keys);
  void read_value(const std::string& key, ValueType type);
  ValueType read_value_type(std::string_view what);
  uint64_t read_integer(ValueType type, const std::string& key);
  uint64_t read_alignment(ValueType type);
  void skip_value(ValueType type);
  void skip_array();

  bool read_tensor_infos();
  void read_tensor_info(std::unordered_set<std::string>& names);
  void read_shape(Tensor& tensor);
  /// The size that type and shape give; nothing for an unknown type, or after a failure.
  std::optional<uint64_t> tensor_bytes(const Tensor& tensor, uint32_t type, uint64_t offset_bytes);

  bool place_tensors();
  bool place_tensor(uint32_t index, uint64_t end_of_data, std::optional<uint32_t> next);
  std::string truncation_hint() const;

  HeaderReader& reader_;
  ParsedFile parsed_;
  uint64_t pair_count_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t alignment_bytes_ = alignment_bytes_default;
  uint64_t data_start_bytes_ = 0;
  std::vector<TensorInfo> infos_;
};

// --- counts -------------------------------------------------------------------------------------

bool GgufParser::read_counts() {
  reader_.skip(4, "the magic bytes GGUF");
  const uint64_t version_offset = reader_.position_bytes();
  const auto version = reader_.read<uint32_t>("the version");
  if (!reader_.ok() || !check_version(version, version_offset)) return false;

  const uint64_t tensor_count_offset = reader_.position_bytes();
  tensor_count_ = reader_.read<uint64_t>("the tensor count");
  pair_count_ = read_count(pair_bytes_min, "key-value pairs");
  if (!reader_.ok()) return false;
  const uint64_t tensors_max = reader_.remaining_bytes() / tensor_info_bytes_min;
  if (tensor_count_ > tensors_max)
    return reader_.mismatch(
        tensor_count_offset,
        fmt::format("a tensor count of at most {}, which is what fits into the file", tensors_max),
        fmt::to_string(tensor_count_));
  return true;
}

bool GgufParser::check_version(uint32_t version, uint64_t offset_bytes) {
  if (version == 2 || version == 3) return true;
  const bool is_byte_swapped = (version & 0xffff) == 0;
  return reader_.unknown(
      offset_bytes, "GGUF version 2 or 3",
      is_byte_swapped ? "the version of a big-endian file" : fmt::format("version {}", version),
      is_byte_swapped ? "get the little-endian file of this model"
                      : "convert the model again with a current llama.cpp");
}

uint64_t GgufParser::read_count(uint64_t bytes_min, std::string_view what) {
  const uint64_t offset = reader_.position_bytes();
  const auto count = reader_.read<uint64_t>(fmt::format("the number of {}", what));
  const uint64_t count_max = reader_.remaining_bytes() / bytes_min;
  if (count <= count_max) return count;
  reader_.mismatch(offset,
                   fmt::format("at most {} {}, which is what fits into the file", count_max, what),
                   fmt::to_string(count));
  return 0;
}

// --- key-value pairs ----------------------------------------------------------------------------

bool GgufParser::read_pairs() {
  std::unordered_set<std::string> keys;
  for (uint64_t i = 0; i < pair_count_ && reader_.ok(); ++i) read_pair(keys);
  return reader_.ok();
}

void GgufParser::read_pair(std::unordered_set<std::string>& keys) {
  const uint64_t offset = reader_.position_bytes();
  const auto key_bytes = reader_.read<uint64_t>("a key's length");
  std::string key = reader_.read_text(key_bytes, key_bytes_max, "a key");
  if (!reader_.ok()) return;
  const auto [inserted, is_new] = keys.insert(std::move(key));
  if (inserted->empty()) {
    reader_.mismatch(offset, "a key", "an empty one");
  } else if (!is_new) {
    reader_.mismatch(offset, "a new key",
                     fmt::format("{} for the second time", quote_name(*inserted)));
  } else {
    read_value(*inserted, read_value_type("a value's type"));
  }
}

void GgufParser::read_value(const std::string& key, ValueType type) {
  if (key == "general.architecture" && type == ValueType::string) {
    const auto length = reader_.read<uint64_t>("the architecture's length");
    parsed_.architecture = reader_.read_text(length, architecture_bytes_max, "the architecture");
  } else if (key == "general.alignment") {
    alignment_bytes_ = read_alignment(type);
  } else if (key.ends_with(".expert_used_count")) {
    parsed_.experts_used = read_integer(type, key);
  } else if (key == "split.no") {
    parsed_.shard = read_integer(type, key);
  } else if (key == "split.count") {
    parsed_.shard_count = std::max<uint64_t>(read_integer(type, key), 1);
  } else if (key == "split.tensors.count") {
    parsed_.model_tensor_count = read_integer(type, key);
  } else {
    skip_value(type);
  }
}

ValueType GgufParser::read_value_type(std::string_view what) {
  const uint64_t offset = reader_.position_bytes();
  const auto type = reader_.read<uint32_t>(what);
  if (type >= value_types) {
    reader_.mismatch(offset, fmt::format("{} below {}", what, value_types), fmt::to_string(type));
    return ValueType::u8;
  }
  return static_cast<ValueType>(type);
}

uint64_t GgufParser::read_integer(ValueType type, const std::string& key) {
  const uint64_t offset = reader_.position_bytes();
  int64_t number = -1;
  switch (type) {
    case ValueType::u16:
      number = reader_.read<uint16_t>(key);
      break;
    case ValueType::i16:
      number = reader_.read<int16_t>(key);
      break;
    case ValueType::u32:
      number = reader_.read<uint32_t>(key);
      break;
    case ValueType::i32:
      number = reader_.read<int32_t>(key);
      break;
    // Above 2^63 nothing is a sensible number here; it becomes negative and is refused below.
    case ValueType::u64:
    case ValueType::i64:
      number = reader_.read<int64_t>(key);
      break;
    default:
      reader_.mismatch(offset, fmt::format("an integer of 16 to 64 bits for {}", key),
                       fmt::format("a value of type {}", static_cast<uint32_t>(type)));
      return 0;
  }
  if (number < 0)
    reader_.mismatch(offset, fmt::format("a number from 0 to 2^63 for {}", key),
                     fmt::to_string(number));
  return reader_.ok() ? static_cast<uint64_t>(number) : 0;
}

uint64_t GgufParser::read_alignment(ValueType type) {
  const uint64_t offset = reader_.position_bytes();
  const uint64_t alignment = read_integer(type, "general.alignment");
  if (std::has_single_bit(alignment) && alignment <= std::numeric_limits<uint32_t>::max())
    return alignment;
  reader_.mismatch(offset, "a power of two below 2^32 for general.alignment",
                   fmt::to_string(alignment));
  return alignment_bytes_default;
}

void GgufParser::skip_value(ValueType type) {
  if (type == ValueType::array) {
    skip_array();
  } else if (type == ValueType::string) {
    reader_.skip(reader_.read<uint64_t>("a string's length"), "a string");
  } else {
    reader_.skip(value_bytes[static_cast<uint32_t>(type)], "a value");
  }
}

void GgufParser::skip_array() {
  const uint64_t offset = reader_.position_bytes();
  const ValueType type = read_value_type("an array's element type");
  if (type == ValueType::array) {
    reader_.unknown(offset, "an array of numbers or strings", "an array of arrays");
  } else if (type == ValueType::string) {
    const uint64_t count = read_count(sizeof(uint64_t), "array elements");
    for (uint64_t i = 0; i < count && reader_.ok(); ++i) skip_value(type);
  } else {
    const uint64_t element_bytes = value_bytes[static_cast<uint32_t>(type)];
    reader_.skip(read_count(element_bytes, "array elements") * element_bytes, "an array");
  }
}

// --- tensor infos -------------------------------------------------------------------------------

bool GgufParser::read_tensor_infos() {
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < tensor_count_ && reader_.ok(); ++i) read_tensor_info(names);
  return reader_.ok();
}

void GgufParser::read_tensor_info(std::unordered_set<std::string>& names) {
  TensorInfo info;
  Tensor tensor;
  info.header_offset_bytes = reader_.position_bytes();
  const auto name_bytes = reader_.read<uint64_t>("a tensor name's length");
  tensor.name = reader_.read_text(name_bytes, name_bytes_max, "a tensor name");
  read_shape(tensor);
  const auto type_id = reader_.read<uint32_t>("a tensor type");
  info.data_offset_bytes = reader_.read<uint64_t>("a tensor offset");
  if (!reader_.ok()) return;
  if (!names.insert(tensor.name).second) {
    reader_.mismatch(info.header_offset_bytes, "a new tensor name",
                     fmt::format("{} for the second time", quote_name(tensor.name)));
    return;
  }

  const GgmlType* type = find_ggml_type(type_id);
  tensor.type = type != nullptr ? std::string(type->name) : fmt::format("type {}", type_id);
  const std::optional<uint64_t> size = tensor_bytes(tensor, type_id, info.header_offset_bytes);
  info.has_size = size.has_value();
  tensor.size_bytes = size.value_or(0);
  infos_.push_back(info);
  parsed_.tensors.push_back(std::move(tensor));
}

void GgufParser::read_shape(Tensor& tensor) {
  const uint64_t offset = reader_.position_bytes();
  const auto dimensions = reader_.read<uint32_t>("a tensor's number of dimensions");
  if (dimensions > dimensions_max) {
    reader_.unknown(offset, fmt::format("at most {} dimensions", dimensions_max),
                    fmt::to_string(dimensions));
    return;
  }
  for (uint32_t i = 0; i < dimensions; ++i)
    tensor.shape.push_back(reader_.read<uint64_t>("a tensor dimension"));
}

std::optional<uint64_t> GgufParser::tensor_bytes(const Tensor& tensor, uint32_t type_id,
                                                 uint64_t offset_bytes) {
  const GgmlType* type = find_ggml_type(type_id);
  if (type == nullptr) return std::nullopt;
  const uint64_t row_elements = tensor.shape.empty() ? 1 : tensor.shape[0];
  if (row_elements % type->block_elements != 0) {
    reader_.mismatch(offset_bytes,
                     fmt::format("a first dimension of tensor {} that is a multiple of {} ({})",
                                 quote_name(tensor.name), type->block_elements, type->name),
                     fmt::to_string(row_elements));
    return std::nullopt;
  }
  uint64_t size = type->block_bytes;
  bool overflows = __builtin_mul_overflow(size, row_elements / type->block_elements, &size);
  for (size_t i = 1; i < tensor.shape.size(); ++i)
    overflows |= __builtin_mul_overflow(size, tensor.shape[i], &size);
  if (overflows) {
    reader_.mismatch(offset_bytes,
                     fmt::format("dimensions of tensor {} whose size is below 2^64 bytes",
                                 quote_name(tensor.name)),
                     fmt::format("{}", fmt::join(tensor.shape, " x ")));
    return std::nullopt;
  }
  return size;
}

// --- tensor data --------------------------------------------------------------------------------

bool GgufParser::place_tensors() {
  data_start_bytes_ = round_up(reader_.position_bytes(), alignment_bytes_);
  std::vector<uint32_t> order(parsed_.tensors.size());
  std::iota(order.begin(), order.end(), 0);
  // An empty tensor goes before the one that starts where it does.
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto key = [&](uint32_t i) {
      return std::tuple(infos_[i].data_offset_bytes, parsed_.tensors[i].size_bytes, i);
    };
    return key(a) < key(b);
  });

  const uint64_t size = reader_.size_bytes();
  const uint64_t data_bytes = size > data_start_bytes_ ? size - data_start_bytes_ : 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool is_last = i + 1 == order.size();
    if (!place_tensor(order[i], data_bytes, is_last ? std::nullopt : std::optional(order[i + 1])))
      return false;
  }
  return true;
}

bool GgufParser::place_tensor(uint32_t index, uint64_t data_bytes, std::optional<uint32_t> next) {
  Tensor& tensor = parsed_.tensors[index];
  const TensorInfo& info = infos_[index];
  const std::string name = quote_name(tensor.name);
  const uint64_t offset = info.data_offset_bytes;
  if (offset % alignment_bytes_ != 0)
    return reader_.mismatch(
        info.header_offset_bytes,
        fmt::format("an offset of tensor {} that is a multiple of {}", name, alignment_bytes_),
        fmt::to_string(offset));
  if (offset > data_bytes)
    return reader_.mismatch(
        info.header_offset_bytes,
        fmt::format("an offset of tensor {} in the {} bytes of tensor data", name, data_bytes),
        fmt::to_string(offset), truncation_hint());

  const uint64_t end_max =
      next ? std::min(infos_[*next].data_offset_bytes, data_bytes) : data_bytes;
  if (!info.has_size) tensor.size_bytes = end_max - offset;
  // Even an empty tensor has a place, which the padding before the data may have put past the end.
  const bool has_place = data_start_bytes_ + offset <= reader_.size_bytes();
  if (!has_place || tensor.size_bytes > data_bytes - offset)
    return reader_.mismatch(info.header_offset_bytes,
                            fmt::format("tensor {} with {} bytes from byte {} on", name,
                                        tensor.size_bytes, data_start_bytes_ + offset),
                            fmt::format("the end of the file at byte {}", reader_.size_bytes()),
                            truncation_hint());
  if (tensor.size_bytes > end_max - offset)
    return reader_.mismatch(
        info.header_offset_bytes,
        fmt::format("tensor {} to end before tensor {} starts, at byte {} of the data", name,
                    quote_name(parsed_.tensors[*next].name), end_max),
        fmt::format("its end at byte {}", offset + tensor.size_bytes));
  tensor.offset_bytes = data_start_bytes_ + offset;
  return true;
}

std::string GgufParser::truncation_hint() const {
  uint64_t needed_bytes = 0;
  for (size_t i = 0; i < infos_.size(); ++i) {
    uint64_t end = data_start_bytes_;
    if (__builtin_add_overflow(end, infos_[i].data_offset_bytes, &end) ||
        __builtin_add_overflow(end, parsed_.tensors[i].size_bytes, &end))
      return "the header is damaged; download the file again";
    needed_bytes = std::max(needed_bytes, end);
  }
  return fmt::format("the file is {} bytes shorter than its tensors need; download it again",
                     needed_bytes - reader_.size_bytes());
}

}  // namespace

Result<ParsedFile> parse_gguf(HeaderReader& reader) { return GgufParser(reader).parse(); }

}  // namespace weightpager::model
