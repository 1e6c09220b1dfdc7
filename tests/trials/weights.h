// How the engines of these trials look at their weights: as a program does that knows nothing of
// weightpager. Every byte that they see is compared with what read(2) says.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace trials {

constexpr size_t page_bytes = 4096;
constexpr size_t piece_bytes = size_t{1} << 20;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "engine: %s (errno %d: %s)\n", what.c_str(), errno, std::strerror(errno));
  _exit(1);
}

inline void expect(bool is_fine, const char* what) {
  if (!is_fine) fail(what);
}

struct File {
  int fd = -1;
  size_t size_bytes = 0;
};

inline File open_file(const char* path) {
  File file;
  file.fd = open(path, O_RDONLY);
  struct stat facts;
  expect(file.fd >= 0 && fstat(file.fd, &facts) == 0, "open");
  file.size_bytes = static_cast<size_t>(facts.st_size);
  return file;
}

inline const unsigned char* map(const File& file) {
  void* address = mmap(nullptr, file.size_bytes, PROT_READ, MAP_SHARED, file.fd, 0);
  expect(address != MAP_FAILED, "mmap");
  return static_cast<const unsigned char*>(address);
}

inline void unmap(const unsigned char* bytes, size_t length_bytes) {
  expect(munmap(const_cast<unsigned char*>(bytes), length_bytes) == 0, "munmap");
}

/// Every byte of [from, to).
inline void check_bytes(const File& file, const unsigned char* bytes, size_t from, size_t to) {
  std::vector<unsigned char> expected(std::min(piece_bytes, to - from));
  for (size_t at = from; at < to; at += expected.size()) {
    const size_t length = std::min(expected.size(), to - at);
    expect(pread(file.fd, expected.data(), length, static_cast<off_t>(at)) ==
               static_cast<ssize_t>(length),
           "pread");
    if (std::memcmp(bytes + at, expected.data(), length) != 0)
      fail("wrong bytes between " + std::to_string(at) + " and " + std::to_string(at + length));
  }
}

inline void check_all(const File& file, const unsigned char* bytes, int passes = 1) {
  for (int pass = 0; pass < passes; ++pass) check_bytes(file, bytes, 0, file.size_bytes);
}

inline unsigned char touch(const unsigned char* address) {
  return *static_cast<const volatile unsigned char*>(address);
}

}  // namespace trials
