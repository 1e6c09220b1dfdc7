// A file whose every 8 bytes say where they are, and a pager that serves it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pager/io/file_identity.h"
#include "pager/io/model_file.h"
#include "pager/pager.h"
#include "pager/telemetry/telemetry.h"
#include "tests/pager/lacks.h"

namespace weightpager {

inline uint64_t word_at(uint64_t offset_bytes) {
  return (offset_bytes / 8) * 0x9e3779b97f4a7c15u + 1;  // never zero by accident
}

class PatternFile {
 public:
  explicit PatternFile(uint64_t size_bytes) : size_bytes_(size_bytes) {
    // Beside the test program: /tmp may be a filesystem without direct reads.
    path_ = "pattern_XXXXXX";
    const int fd = mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    std::vector<uint64_t> words(MiB / 8);
    for (uint64_t offset = 0; offset < size_bytes; offset += MiB) {
      for (size_t i = 0; i < words.size(); ++i) words[i] = word_at(offset + i * 8);
      const uint64_t bytes = std::min<uint64_t>(MiB, size_bytes - offset);
      EXPECT_EQ(pwrite(fd, words.data(), bytes, static_cast<off_t>(offset)),
                static_cast<ssize_t>(bytes));
    }
    fsync(fd);
    // A time in whole seconds counts as one of an old filesystem, and settles only after three.
    // Where the clock began with a whole second (QEMU's does), a tick in 250 is one.
    while (io::identity_of(fd)->changed_ns % 1'000'000'000 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(fchmod(fd, 0600), 0);
    }
    close(fd);
  }
  ~PatternFile() { unlink(path_.c_str()); }
  PatternFile(const PatternFile&) = delete;
  PatternFile& operator=(const PatternFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }

  /// Other words in place of all: what word_at() says, turned over.
  void turn_over() const {
    const int fd = open(path_.c_str(), O_RDWR);
    std::vector<uint64_t> words(MiB / 8);
    for (uint64_t offset = 0; offset < size_bytes_; offset += MiB) {
      for (size_t i = 0; i < words.size(); ++i) words[i] = ~word_at(offset + i * 8);
      const uint64_t bytes = std::min<uint64_t>(MiB, size_bytes_ - offset);
      EXPECT_EQ(pwrite(fd, words.data(), bytes, static_cast<off_t>(offset)),
                static_cast<ssize_t>(bytes));
    }
    close(fd);
  }

 private:
  std::string path_;
  uint64_t size_bytes_;
};

struct MapperAndChunk {
  const char* mapper;
  uint64_t chunk_bytes;
};

/// Every mapper with chunks that are huge pages, and with smaller ones.
inline constexpr MapperAndChunk mappers_and_chunks[] = {
    {"move", 2 * MiB},   {"collapse", 2 * MiB},   {"copy", 2 * MiB},   {"module", 2 * MiB},
    {"move", 128 * KiB}, {"collapse", 128 * KiB}, {"copy", 128 * KiB}, {"module", 128 * KiB},
};

inline std::string name_of(const ::testing::TestParamInfo<MapperAndChunk>& it) {
  const bool is_small = it.param.chunk_bytes < huge_page_bytes;
  return std::string(it.param.mapper) + (is_small ? "_small_chunks" : "");
}

/// The test runs once per mapper and size; a mapper that this kernel lacks is skipped.
class PagerTest : public ::testing::TestWithParam<MapperAndChunk> {
 protected:
  static std::string mapper() { return GetParam().mapper; }
  static uint64_t chunk_bytes() { return GetParam().chunk_bytes; }

  void SetUp() override {
    WP_SKIP_FOR(lack_for_mapper(mapper()));
    telemetry_ = *telemetry::create("");
    start(32 * MiB);
  }

  void start(uint64_t window_bytes, PagerOptions options = {}) {
    pager_.reset();
    options.window_bytes = window_bytes;
    options.window_bytes_max = 2 * window_bytes;
    options.mapper = mapper();
    options.chunk_bytes = chunk_bytes();
    options.judge = judge_;
    options.telemetry = telemetry_;
    pager_ = started(options);
  }

  std::byte* map_writable(const PatternFile& file, uint64_t offset_bytes = 0,
                          uint64_t length_bytes = 0) {
    return map(file, offset_bytes, length_bytes, true);
  }

  std::byte* map(const PatternFile& file, uint64_t offset_bytes = 0, uint64_t length_bytes = 0,
                 bool is_writable = false) {
    RegionRequest request;
    request.path = request.name = file.path();
    request.file = io::settled_identity_of(request.path);  // as all do who ask for regions
    request.offset_bytes = offset_bytes;
    request.length_bytes = length_bytes == 0 ? file.size_bytes() - offset_bytes : length_bytes;
    request.is_writable = is_writable;
    auto model = model::open_model_file(file.path());
    EXPECT_TRUE(model) << model.error().message;
    request.model = &*model;
    auto address = pager_->add_region(request);
    EXPECT_TRUE(address) << address.error().message;
    return *address;
  }

  static uint64_t load(const std::byte* address) {
    return *reinterpret_cast<const volatile uint64_t*>(address);
  }

  shadow::Judge judge_ = shadow::judge;  // from the next start on
  telemetry::Telemetry* telemetry_ = nullptr;
  std::unique_ptr<Pager> pager_;
};

}  // namespace weightpager
