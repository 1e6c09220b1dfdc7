// A file whose every byte follows from its offset, so that any read can be checked without a copy.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "pager/io/model_file.h"

namespace weightpager::io {

inline std::byte pattern_byte(uint64_t offset_bytes) {
  return static_cast<std::byte>((offset_bytes + 1) * 0x9E3779B97F4A7C15 >> 56);
}

inline void fill_with_pattern(std::span<std::byte> bytes, uint64_t offset_bytes) {
  for (std::byte& byte : bytes) byte = pattern_byte(offset_bytes++);
}

/// Where `bytes` first differ from the file at `offset_bytes`, if they do.
inline std::optional<uint64_t> first_difference(std::span<const std::byte> bytes,
                                                uint64_t offset_bytes) {
  for (size_t i = 0; i < bytes.size(); i++) {
    if (bytes[i] != pattern_byte(offset_bytes + i)) return offset_bytes + i;
  }
  return std::nullopt;
}

class PatternFile {
 public:
  explicit PatternFile(uint64_t size_bytes) : path_(testing::TempDir() + "pattern.XXXXXX") {
    const int fd = mkstemp(path_.data());
    std::vector<std::byte> bytes(size_bytes);
    fill_with_pattern(bytes, 0);
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    EXPECT_EQ(written, static_cast<ssize_t>(size_bytes)) << path_;
    close(fd);
    if (auto file = ModelFile::open(path_)) {
      file_ = std::make_unique<ModelFile>(std::move(*file));
    } else {
      ADD_FAILURE() << file.error().message;
    }
  }
  ~PatternFile() { unlink(path_.c_str()); }
  PatternFile(const PatternFile&) = delete;
  PatternFile& operator=(const PatternFile&) = delete;

  const std::string& path() const { return path_; }
  const ModelFile& model_file() const { return *file_; }
  int fd() const { return file_->fd(); }
  uint64_t size_bytes() const { return file_->size_bytes(); }
  /// Bytes of the file in a read.
  uint32_t bytes_within(uint64_t offset_bytes, uint32_t length_bytes) const {
    if (offset_bytes >= size_bytes()) return 0;
    return static_cast<uint32_t>(std::min<uint64_t>(length_bytes, size_bytes() - offset_bytes));
  }

 private:
  std::string path_;
  std::unique_ptr<ModelFile> file_;
};

/// Memory for direct reads, which no pattern is in yet.
class Buffer {
 public:
  explicit Buffer(uint32_t length_bytes)
      : bytes_(static_cast<std::byte*>(
            std::aligned_alloc(os_page_bytes, round_up(length_bytes + 1, os_page_bytes)))),
        length_bytes_(length_bytes) {
    std::fill_n(bytes_.get(), length_bytes, std::byte{0xEE});
  }

  std::byte* data() { return bytes_.get(); }
  std::span<const std::byte> first(uint32_t length_bytes) const {
    EXPECT_LE(length_bytes, length_bytes_);
    return {bytes_.get(), length_bytes};
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  uint32_t length_bytes_;
};

}  // namespace weightpager::io
