// Runs a test body over the io_uring reader and over the pread reader.
#pragma once

#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "pager/io/reader.h"
#include "tests/base/lacks.h"
#include "tests/io/pattern_file.h"

namespace weightpager::io {

struct ReaderKind {
  const char* name;
  Result<std::unique_ptr<Reader>> (*open)(const ReaderOptions&);
};

inline const ReaderKind reader_kinds[] = {{"io_uring", open_uring_reader},
                                          {"pread", open_pread_reader}};

class BothReaders : public testing::TestWithParam<ReaderKind> {
 protected:
  void SetUp() override { WP_SKIP_FOR(lack_for(GetParam())); }

  static Lack lack_for(const ReaderKind& kind) {
    if (kind.name == std::string_view("pread")) return {};
    io_uring_params parameters{};
    const long fd = ::syscall(SYS_io_uring_setup, 1, &parameters);
    if (fd < 0) return std::string("io_uring is refused: ") + std::strerror(errno);
    ::close(static_cast<int>(fd));
    return {};
  }

  /// Throws where SetUp succeeded and this does not: GoogleTest makes that a failure.
  static std::unique_ptr<Reader> open(const ReaderOptions& options) {
    auto reader = GetParam().open(options);
    if (!reader) throw std::runtime_error(reader.error().message);
    return std::move(*reader);
  }

  /// Waits until nothing is in flight.
  static std::vector<Completion> finish_all(Reader& reader) {
    std::vector<Completion> all;
    while (reader.reads_in_flight() > 0) {
      const Wakeup wakeup = reader.wait(-1);
      all.insert(all.end(), wakeup.completions.begin(), wakeup.completions.end());
    }
    return all;
  }

  static Completion read_alone(Reader& reader, const Read& read) {
    reader.start(read);
    const auto completions = finish_all(reader);
    EXPECT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions.at(0).tag, read.tag);
    return completions.at(0);
  }

  /// Reads alone and expects every byte of `file` that the range has, without an error.
  static void expect_exact(Reader& reader, const PatternFile& file, uint64_t offset_bytes,
                           uint32_t length_bytes) {
    SCOPED_TRACE(testing::Message()
                 << length_bytes << " bytes at " << offset_bytes << " of " << file.size_bytes());
    Buffer buffer(length_bytes);
    const Completion completion = read_alone(reader, {.tag = offset_bytes + 7,
                                                      .fd = file.fd(),
                                                      .offset_bytes = offset_bytes,
                                                      .length_bytes = length_bytes,
                                                      .buffer = buffer.data()});
    EXPECT_EQ(completion.error_number, 0);
    ASSERT_EQ(completion.length_bytes, file.bytes_within(offset_bytes, length_bytes));
    EXPECT_EQ(first_difference(buffer.first(completion.length_bytes), offset_bytes), std::nullopt);
  }
};

#define INSTANTIATE_BOTH_READERS(suite)                              \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(reader_kinds), \
                           [](const auto& kind) { return kind.param.name; })

}  // namespace weightpager::io
