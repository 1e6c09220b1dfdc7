// PyTorch checkpoints for tests, as torch.save writes them: stored entries, each with its bytes at
// a multiple of 64 and a descriptor behind, a directory, and an end record, of 64 bits as asked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weightpager::model {

struct TorchEntry {
  std::string name;
  uint64_t size_bytes = 0;
  uint16_t method = 0;
};

class TorchBytes {
 public:
  std::vector<TorchEntry> entries = {{"archive/data.pkl", 50},
                                     {"archive/data/0", 100},
                                     {"archive/data/1", 64},
                                     {"archive/data/10", 7},
                                     {"archive/version", 2}};
  /// Numbers of the directory are in zip64 extra fields.
  bool is_64 = false;
  uint64_t alignment_bytes = 64;

  std::string bytes() const {
    std::string file;
    std::string directory;
    for (const TorchEntry& entry : entries) add(entry, file, directory);
    const uint64_t directory_offset_bytes = file.size();
    file += directory;
    const uint64_t record_offset_bytes = file.size();
    if (is_64) {
      file += number(uint32_t{0x06064b50}) + number(uint64_t{44}) + std::string(12, '\0') +
              number(uint64_t{entries.size()}) + number(uint64_t{entries.size()}) +
              number(uint64_t{directory.size()}) + number(directory_offset_bytes);
      file += number(uint32_t{0x07064b50}) + number(uint32_t{0}) + number(record_offset_bytes) +
              number(uint32_t{1});
    }
    const auto count = static_cast<uint16_t>(is_64 ? UINT16_MAX : entries.size());
    return file + number(uint32_t{0x06054b50}) + number(uint32_t{0}) + number(count) +
           number(count) + short_number(directory.size()) + short_number(directory_offset_bytes) +
           number(uint16_t{0});
  }

 private:
  template <typename T>
  static std::string number(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  std::string short_number(uint64_t value) const {
    return number(static_cast<uint32_t>(is_64 ? UINT32_MAX : value));
  }

  void add(const TorchEntry& entry, std::string& file, std::string& directory) const {
    const uint64_t header_offset_bytes = file.size();
    const std::string sizes = short_number(entry.size_bytes) + short_number(entry.size_bytes);
    const uint64_t begin_bytes = file.size() + 30 + entry.name.size() + 4;
    const uint64_t padding_bytes =
        (alignment_bytes - begin_bytes % alignment_bytes) % alignment_bytes;
    file += std::string("PK\3\4\0\0\x08\x08", 8) + number(entry.method) + std::string(8, '\0') +
            std::string(8, '\0') + number(static_cast<uint16_t>(entry.name.size())) +
            number(static_cast<uint16_t>(4 + padding_bytes)) + entry.name + "FB" +
            number(static_cast<uint16_t>(padding_bytes)) + std::string(padding_bytes, 'Z');
    file += std::string(entry.size_bytes, 'd');
    file += number(uint32_t{0x08074b50}) + number(uint32_t{0});
    for (int i = 0; i < 2; ++i) {
      file += is_64 ? number(entry.size_bytes) : number(static_cast<uint32_t>(entry.size_bytes));
    }

    const std::string extra = is_64 ? number(uint16_t{1}) + number(uint16_t{24}) +
                                          number(entry.size_bytes) + number(entry.size_bytes) +
                                          number(header_offset_bytes)
                                    : "";
    directory += number(uint32_t{0x02014b50}) + std::string("\0\0\0\0\x08\x08", 6) +
                 number(entry.method) + std::string(8, '\0') + sizes +
                 number(static_cast<uint16_t>(entry.name.size())) +
                 number(static_cast<uint16_t>(extra.size())) + number(uint16_t{0}) +
                 std::string(8, '\0') + short_number(header_offset_bytes) + entry.name + extra;
  }
};

}  // namespace weightpager::model
