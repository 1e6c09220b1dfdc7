// io_uring_enter is taken from a thread that reads with it: the reads that were asked for, and all
// later ones, arrive nevertheless.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <thread>

#include "tests/io/both_readers.h"

namespace weightpager::io {
namespace {

/// To this thread, and to those that it starts.
bool refuse_here(unsigned call) {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

using RefusedUringTest = BothReaders;
INSTANTIATE_BOTH_READERS(RefusedUringTest);

TEST_P(RefusedUringTest, ReadsGoOnWhenTheCallIsTakenAway) {
  constexpr uint32_t read_bytes = 1 * MiB;
  constexpr uint32_t reads = 8;
  const PatternFile file(reads * read_bytes);
  std::thread([&] {
    const auto reader = open({.device_read_bytes = 64 * KiB});
    expect_exact(*reader, file, 0, read_bytes);
    if (!refuse_here(SYS_io_uring_enter)) return;
    std::vector<Buffer> buffers;
    for (uint32_t i = 0; i < reads; ++i) {
      buffers.emplace_back(read_bytes);
      reader->start({.tag = i,
                     .fd = file.fd(),
                     .offset_bytes = uint64_t{i} * read_bytes,
                     .length_bytes = read_bytes,
                     .buffer = buffers.back().data()});
    }
    EXPECT_EQ(finish_all(*reader).size(), reads);
    for (uint32_t i = 0; i < reads; ++i) {
      EXPECT_EQ(first_difference(buffers[i].first(read_bytes), uint64_t{i} * read_bytes),
                std::nullopt);
    }
    EXPECT_EQ(reader->name(), std::string_view("pread"));
    expect_exact(*reader, file, read_bytes, read_bytes);
  }).join();
}

TEST_P(RefusedUringTest, SoDoWrites) {
  constexpr uint32_t write_bytes = 1 * MiB;
  constexpr uint32_t writes = 8;
  const PatternFile empty(0);
  const int fd = ::open(empty.path().c_str(), O_RDWR | O_CLOEXEC | O_DIRECT);
  std::thread([&] {
    const auto reader = open({.device_read_bytes = 64 * KiB});
    if (!refuse_here(SYS_io_uring_enter)) return;
    std::vector<Buffer> buffers;
    for (uint32_t i = 0; i < writes; ++i) {
      buffers.emplace_back(write_bytes);
      fill_with_pattern({buffers.back().data(), write_bytes}, uint64_t{i} * write_bytes);
      reader->start_write({.tag = i,
                           .fd = fd,
                           .offset_bytes = uint64_t{i} * write_bytes,
                           .length_bytes = write_bytes,
                           .buffer = buffers.back().data()});
    }
    const auto completions = finish_all(*reader);
    EXPECT_EQ(completions.size(), writes);
    for (const Completion& it : completions) EXPECT_EQ(it.error_number, 0);
    EXPECT_EQ(reader->name(), std::string_view("pread"));
    for (uint32_t i = 0; i < writes; ++i) {
      Buffer read(write_bytes);
      EXPECT_EQ(read_alone(*reader, {.fd = fd,
                                     .offset_bytes = uint64_t{i} * write_bytes,
                                     .length_bytes = write_bytes,
                                     .buffer = read.data()})
                    .length_bytes,
                write_bytes);
      EXPECT_EQ(first_difference(read.first(write_bytes), uint64_t{i} * write_bytes), std::nullopt);
    }
  }).join();
  close(fd);
}

TEST_P(RefusedUringTest, NoReaderIsOpenedThatCouldNotRead) {
  std::thread([] {
    if (!refuse_here(SYS_io_uring_enter)) return;
    const auto reader = GetParam().open({});
    if (reader) {
      EXPECT_EQ((*reader)->name(), std::string_view("pread"));
    } else {
      EXPECT_EQ(reader.error().error_number, EPERM);
    }
  }).join();
}

}  // namespace
}  // namespace weightpager::io
