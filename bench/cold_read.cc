// How long a file's bytes take to come into memory that the process does not have yet.
//
// A cold start fills its window with fresh memory, and a virtual machine must first get that from
// its host, which can be slower than the disk. fio's figure leaves this out: it reads into the same
// few buffers over and over. This program does the least that any reader with a window of that size
// must do, and nothing of weightpager's: 16 threads read 2 MiB each, O_DIRECT, into a window of
// fresh huge pages, and once it is full, into its pages again. It prints the seconds.
//
//     build/release/bench/cold_read FILE WINDOW_MIB
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t read_bytes = 2u << 20;
constexpr int threads_reading = 16;

int refuse(const char* what) {
  std::perror(what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t slots = count == 3 ? std::strtoull(arguments[2], nullptr, 10) / 2 : 0;
  if (slots < threads_reading) {
    std::fprintf(stderr, "cold_read FILE WINDOW_MIB: a window of at least 32 MiB\n");
    return 2;
  }
  const int file = open(arguments[1], O_RDONLY | O_DIRECT);
  struct stat facts {};
  if (file < 0 || fstat(file, &facts) != 0) return refuse(arguments[1]);
  const uint64_t reads = (static_cast<uint64_t>(facts.st_size) + read_bytes - 1) / read_bytes;

  const auto started = std::chrono::steady_clock::now();
  void* memory = mmap(nullptr, (slots + 1) * read_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return refuse("mmap");
  const auto start = reinterpret_cast<uintptr_t>(memory);
  char* window = static_cast<char*>(memory) + (read_bytes - start % read_bytes) % read_bytes;
  madvise(window, slots * read_bytes, MADV_HUGEPAGE);

  std::atomic<uint64_t> next{0};
  std::atomic<bool> is_broken{false};
  const auto read_on = [&] {
    for (uint64_t i = next++; i < reads; i = next++) {
      const auto offset = static_cast<off_t>(i * read_bytes);
      if (pread(file, window + i % slots * read_bytes, read_bytes, offset) <= 0) is_broken = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < threads_reading; ++i) threads.emplace_back(read_on);
  for (std::thread& thread : threads) thread.join();
  if (is_broken) return refuse("pread");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf("%.6f\n", took.count());
  return 0;
}
