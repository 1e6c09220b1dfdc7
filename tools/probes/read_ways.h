// Measures ways to read a file: through the page cache or past it, into several kinds of memory.
//
// Problem. The Demand Layering paper chooses direct reads into pinned memory: no second copy in the
// page cache, and times that vary little. What that is worth depends on disk, kernel and processor.
//
// Idea. All ways read the same file in the same order by the same calls, one read at a time, into a
// pool of memory that is in place beforehand. They differ in what the file was opened with, in
// whether the page cache has it, and in the memory. Registered memory is the processor's
// counterpart of CUDA's pinned memory: huge pages that io_uring pins once and not for each read.
//
// Cost: the time that is asked for; before a cold pass the file leaves the page cache.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/io/model_file.h"

namespace weightpager::tools {

enum class ReadMemory { small_pages, locked, huge_pages, registered };

struct ReadWay {
  const char* name;
  bool is_direct = false;
  /// Through the page cache: it is empty before each pass over the file.
  bool is_cold = false;
  ReadMemory memory = ReadMemory::small_pages;
};

inline constexpr std::array<ReadWay, 6> read_ways = {
    {{"page cache, warm", false, false, ReadMemory::small_pages},
     {"page cache, cold", false, true, ReadMemory::small_pages},
     {"direct, pageable", true, false, ReadMemory::small_pages},
     {"direct, locked", true, false, ReadMemory::locked},
     {"direct, huge pages", true, false, ReadMemory::huge_pages},
     {"direct, registered", true, false, ReadMemory::registered}}};

struct WaySpeed {
  double bytes_per_s = 0;
  /// The processor time of all threads of this process for each second of reading.
  double processor_share = 0;
  /// How much of the file is in the page cache afterwards.
  uint64_t cached_bytes = 0;
};

/// For one thread. Movable.
class ReadProbe {
 public:
  static constexpr uint64_t read_bytes_max = 16u << 20;

  /// Fails if the file has no direct reads, or if the kernel refuses io_uring.
  static Result<ReadProbe> open(const std::string& path);

  ReadProbe(ReadProbe&&) noexcept;
  ReadProbe& operator=(ReadProbe&&) = delete;
  ~ReadProbe();

  /// Reads the file over and over for `time`, at least three passes, of which the median counts,
  /// `length_bytes` at once: a multiple of 4 KiB up to read_bytes_max and up to the file's size.
  /// Fails if the memory cannot be had (locked memory, huge pages), or if a read fails.
  Result<WaySpeed> read(const ReadWay& way, uint32_t length_bytes, std::chrono::milliseconds time);

  uint64_t file_bytes() const { return file_.size_bytes(); }

 private:
  class Ring;
  class Pool;

  ReadProbe(io::ModelFile file, OwnedFd buffered, std::unique_ptr<Ring> ring);

  Result<Pool*> pool_of(ReadMemory memory);
  Status read_pass(int fd, Pool& pool, uint32_t length_bytes);
  uint64_t cached_bytes() const;

  io::ModelFile file_;
  OwnedFd buffered_;
  std::unique_ptr<Ring> ring_;
  std::map<ReadMemory, std::unique_ptr<Pool>> pools_;
};

}  // namespace weightpager::tools
