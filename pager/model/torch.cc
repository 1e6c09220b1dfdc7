// PyTorch checkpoints (torch.save): a zip archive whose entries are not compressed.
//
// Problem. torch.load(mmap=True) maps the whole archive, and a pass touches each storage where it
// lies. Names, types and shapes are in a pickle, which is a program: nobody but Python should run
// it.
//
// Idea. The archive's directory, at the end of the file, says where each storage ("…/data/7") lies.
// That is enough to know where one tensor ends and the next begins. So each storage is a tensor of
// bytes, in the order of the file. Whatever else begins like a checkpoint, or has storages that
// are compressed, is no error: it is paged in file order.
//
// An entry's bytes end where its descriptor begins, right before the next entry. They are found
// from that end, because an entry's beginning would cost a read at each entry: PyTorch aligns it,
// which shows that it is right.
//
// Cost: a read of the directory, some 100 bytes for each storage. The format: PKWARE's APPNOTE.TXT,
// sections 4.3 and 4.5.3.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "pager/model/parsers.h"

namespace weightpager::model {
namespace {

constexpr uint32_t entry_signature = 0x02014b50;
constexpr uint32_t end_signature = 0x06054b50;
constexpr uint32_t end64_signature = 0x06064b50;
constexpr uint32_t locator_signature = 0x07064b50;
constexpr uint64_t end_bytes = 22;
constexpr uint64_t locator_bytes = 20;
constexpr uint64_t local_header_bytes = 30;
constexpr uint32_t in_extra_32 = UINT32_MAX;  // the real number is in the zip64 extra field
constexpr uint16_t zip64_extra = 1;
constexpr uint64_t storage_alignment_bytes = 64;
// After an entry's bytes: signature, checksum and both sizes, of 4 or 8 bytes each.
constexpr uint64_t descriptor_bytes = 16;
constexpr uint64_t descriptor64_bytes = 24;

/// One row of the directory.
struct ZipEntry {
  std::string name;
  uint64_t row_offset_bytes = 0;  // of the row itself, for errors
  bool is_stored = false;
  uint64_t packed_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t header_offset_bytes = 0;
};

/// "archive/data/7" → "data/7"; empty for other entries.
std::string storage_name(std::string_view name) {
  const size_t number_at = name.rfind('/') + 1;
  constexpr std::string_view folder = "/data/";
  if (number_at < folder.size() ||
      name.substr(number_at - folder.size(), folder.size()) != folder) {
    return {};
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + number_at, name.end(), number);
  if (error != std::errc() || end != name.end()) return {};
  return fmt::format("data/{}", number);
}

class TorchParser {
 public:
  explicit TorchParser(HeaderReader& reader) : reader_(reader) {}

  Result<ParsedFile> parse() {
    if (!find_directory() || !read_entries() || !place_storages()) return reader_.take_error();
    ParsedFile parsed;
    parsed.format = Format::torch;
    parsed.file = {reader_.path(), reader_.size_bytes()};
    parsed.tensors = std::move(storages_);
    return parsed;
  }

 private:
  bool find_directory();
  bool find_directory64(uint64_t end_offset_bytes);
  bool check_directory(uint64_t limit_bytes);
  bool read_entries();
  ZipEntry read_entry();
  void read_zip64(uint64_t extra_bytes, ZipEntry& entry);
  bool place_storages();
  bool place(const ZipEntry& entry, std::string name, uint64_t next_bytes);

  HeaderReader& reader_;
  uint64_t directory_offset_bytes_ = 0;
  uint64_t directory_bytes_ = 0;
  uint64_t entry_count_ = 0;
  std::vector<ZipEntry> entries_;
  std::vector<Tensor> storages_;
  std::unordered_set<std::string> names_;  // of storages_
};

/// PyTorch writes no comment behind the end record, so that it is the file's last bytes.
bool TorchParser::find_directory() {
  if (reader_.size_bytes() < end_bytes)
    return reader_.mismatch(reader_.size_bytes(), "the end of a zip archive",
                            "the end of the file");
  const uint64_t end_offset_bytes = reader_.size_bytes() - end_bytes;
  reader_.go_to(end_offset_bytes);
  const auto signature = reader_.read<uint32_t>("the end record's signature");
  if (!reader_.ok()) return false;
  if (signature != end_signature)
    return reader_.mismatch(end_offset_bytes, "the end of a zip archive",
                            fmt::format("0x{:08x}", signature),
                            "a download or copy that did not finish ends so; do it again");
  reader_.skip(6, "numbers of disks");
  const auto count = reader_.read<uint16_t>("the number of entries");
  directory_bytes_ = reader_.read<uint32_t>("the directory's size");
  directory_offset_bytes_ = reader_.read<uint32_t>("the directory's place");
  entry_count_ = count;
  if (!reader_.ok()) return false;
  const bool is_64 = count == UINT16_MAX || directory_bytes_ == in_extra_32 ||
                     directory_offset_bytes_ == in_extra_32;
  return is_64 ? find_directory64(end_offset_bytes) : check_directory(end_offset_bytes);
}

/// A locator before the end record says where the larger record is.
bool TorchParser::find_directory64(uint64_t end_offset_bytes) {
  if (end_offset_bytes < locator_bytes)
    return reader_.mismatch(0, "a zip64 locator", "the beginning of the file");
  const uint64_t locator_offset_bytes = end_offset_bytes - locator_bytes;
  reader_.go_to(locator_offset_bytes);
  const auto signature = reader_.read<uint32_t>("the zip64 locator's signature");
  reader_.skip(4, "the number of a disk");
  const auto record_offset_bytes = reader_.read<uint64_t>("the place of the zip64 end record");
  if (!reader_.ok()) return false;
  if (signature != locator_signature || record_offset_bytes >= locator_offset_bytes)
    return reader_.mismatch(locator_offset_bytes, "a zip64 locator",
                            fmt::format("0x{:08x}, {}", signature, record_offset_bytes));
  reader_.go_to(record_offset_bytes);
  const auto record_signature = reader_.read<uint32_t>("the zip64 end record's signature");
  reader_.skip(28, "sizes, versions and numbers of disks");
  entry_count_ = reader_.read<uint64_t>("the number of entries");
  directory_bytes_ = reader_.read<uint64_t>("the directory's size");
  directory_offset_bytes_ = reader_.read<uint64_t>("the directory's place");
  if (!reader_.ok()) return false;
  if (record_signature != end64_signature)
    return reader_.mismatch(record_offset_bytes, "a zip64 end record",
                            fmt::format("0x{:08x}", record_signature));
  return check_directory(record_offset_bytes);
}

bool TorchParser::check_directory(uint64_t limit_bytes) {
  const bool is_inside = directory_offset_bytes_ <= limit_bytes &&
                         directory_bytes_ <= limit_bytes - directory_offset_bytes_;
  return is_inside ||
         reader_.mismatch(limit_bytes, "the directory before this byte",
                          fmt::format("{} bytes at {}", directory_bytes_, directory_offset_bytes_));
}

bool TorchParser::read_entries() {
  reader_.go_to(directory_offset_bytes_);
  const uint64_t end = directory_offset_bytes_ + directory_bytes_;
  for (uint64_t i = 0; i < entry_count_; ++i) {
    ZipEntry entry = read_entry();
    if (!reader_.ok()) return false;
    if (reader_.position_bytes() > end)
      return reader_.mismatch(entry.row_offset_bytes,
                              fmt::format("{} entries in {} bytes", entry_count_, directory_bytes_),
                              fmt::format("{} of them", i));
    if (entry.header_offset_bytes >= directory_offset_bytes_)
      return reader_.mismatch(entry.row_offset_bytes,
                              fmt::format("an entry before byte {}", directory_offset_bytes_),
                              fmt::to_string(entry.header_offset_bytes));
    entries_.push_back(std::move(entry));
  }
  return true;
}

ZipEntry TorchParser::read_entry() {
  ZipEntry entry;
  entry.row_offset_bytes = reader_.position_bytes();
  const auto signature = reader_.read<uint32_t>("an entry's signature");
  if (reader_.ok() && signature != entry_signature)
    reader_.mismatch(entry.row_offset_bytes, "an entry of the zip directory",
                     fmt::format("0x{:08x}", signature));
  reader_.skip(6, "versions and flags");
  entry.is_stored = reader_.read<uint16_t>("an entry's method") == 0;
  reader_.skip(8, "an entry's time and checksum");
  entry.packed_bytes = reader_.read<uint32_t>("an entry's packed size");
  entry.size_bytes = reader_.read<uint32_t>("an entry's size");
  const auto name_bytes = reader_.read<uint16_t>("the length of an entry's name");
  const auto extra_bytes = reader_.read<uint16_t>("the length of an entry's extra field");
  const auto comment_bytes = reader_.read<uint16_t>("the length of an entry's comment");
  reader_.skip(8, "an entry's attributes");
  entry.header_offset_bytes = reader_.read<uint32_t>("an entry's place");
  entry.name = reader_.read_text(name_bytes, UINT16_MAX, "an entry's name");
  read_zip64(extra_bytes, entry);
  reader_.skip(comment_bytes, "an entry's comment");
  return entry;
}

/// Of the numbers that did not fit, in this order.
void TorchParser::read_zip64(uint64_t extra_bytes, ZipEntry& entry) {
  while (reader_.ok() && extra_bytes >= 4) {
    const auto kind = reader_.read<uint16_t>("an extra field's kind");
    uint64_t field_bytes = reader_.read<uint16_t>("an extra field's length");
    extra_bytes -= 4;
    field_bytes = std::min(field_bytes, extra_bytes);
    extra_bytes -= field_bytes;
    for (uint64_t* number : {&entry.size_bytes, &entry.packed_bytes, &entry.header_offset_bytes}) {
      if (kind != zip64_extra || *number != in_extra_32 || field_bytes < 8) continue;
      *number = reader_.read<uint64_t>("a zip64 number");
      field_bytes -= 8;
    }
    reader_.skip(field_bytes, "an extra field");
  }
  reader_.skip(extra_bytes, "an extra field");
}

bool TorchParser::place_storages() {
  std::sort(entries_.begin(), entries_.end(), [](const ZipEntry& a, const ZipEntry& b) {
    return a.header_offset_bytes < b.header_offset_bytes;
  });
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::string name = storage_name(entries_[i].name);
    if (name.empty()) continue;
    const bool is_last = i + 1 == entries_.size();
    const uint64_t next_bytes =
        is_last ? directory_offset_bytes_ : entries_[i + 1].header_offset_bytes;
    if (!place(entries_[i], std::move(name), next_bytes)) return false;
  }
  if (!storages_.empty()) return true;
  return reader_.unknown(directory_offset_bytes_, "storages of a PyTorch checkpoint", "none");
}

bool TorchParser::place(const ZipEntry& entry, std::string name, uint64_t next_bytes) {
  if (!entry.is_stored || entry.packed_bytes != entry.size_bytes)
    return reader_.unknown(entry.row_offset_bytes,
                           fmt::format("{} as it is", quote_name(entry.name)), "compressed bytes");
  const uint64_t earliest_bytes =
      entry.header_offset_bytes + local_header_bytes + entry.name.size();
  for (const uint64_t behind_bytes : {descriptor_bytes, descriptor64_bytes}) {
    const uint64_t room_bytes = next_bytes - std::min(next_bytes, earliest_bytes);
    if (entry.header_offset_bytes > next_bytes || room_bytes < behind_bytes ||
        entry.size_bytes > room_bytes - behind_bytes) {
      continue;
    }
    const uint64_t begin_bytes = next_bytes - behind_bytes - entry.size_bytes;
    if (begin_bytes % storage_alignment_bytes != 0) continue;
    if (!names_.insert(name).second)
      return reader_.mismatch(entry.row_offset_bytes, "a new storage", quote_name(entry.name));
    storages_.push_back({.name = std::move(name),
                         .type = "U8",
                         .shape = {entry.size_bytes},
                         .offset_bytes = begin_bytes,
                         .size_bytes = entry.size_bytes});
    return true;
  }
  return reader_.unknown(
      entry.row_offset_bytes,
      fmt::format("{} bytes of {} behind byte {}, aligned to {} and ending before {}",
                  entry.size_bytes, quote_name(entry.name), entry.header_offset_bytes,
                  storage_alignment_bytes, next_bytes),
      "another place");
}

}  // namespace

Result<ParsedFile> parse_torch(HeaderReader& reader) { return TorchParser(reader).parse(); }

}  // namespace weightpager::model
