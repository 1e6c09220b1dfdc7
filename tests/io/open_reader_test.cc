#include "pager/io/open_reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "pager/base/units.h"
#include "pager/io/model_file.h"

namespace weightpager::io {
namespace {

TEST(BestReader, OfAFileInMemoryHasThreadsThatCopy) {
  std::vector<std::byte> written(64 * KiB);
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 / 3);
  const int memory = memfd_create("model", MFD_CLOEXEC);
  ASSERT_EQ(write(memory, written.data(), written.size()), 64 * KiB);

  auto reader = open_best_reader({.reads_max = 4,
                                  .device_read_bytes = 16 * KiB,
                                  .reads_are_copies = device_limits(memory).reads_are_copies});
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_STREQ((*reader)->name(), "pread");
  std::vector<std::byte> read(written.size());
  (*reader)->start({.fd = memory, .length_bytes = 64 * KiB, .buffer = read.data()});
  const Wakeup wakeup = (*reader)->wait(-1);
  ASSERT_EQ(wakeup.completions.size(), 1u);
  EXPECT_EQ(wakeup.completions[0].length_bytes, 64 * KiB);
  EXPECT_EQ(read, written);
  close(memory);
}

}  // namespace
}  // namespace weightpager::io
