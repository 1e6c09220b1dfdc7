// Reads of a file one after the other, with so many in flight, that nobody uses: what a reader gets
// off a drive when it has nothing else to do.
//
// The bytes land in huge pages, as they do in the window, and in more of them than a processor's
// cache holds: into few buffers, used over and over, a virtual disk copies faster than it ever will
// into a window. Reads go on where the last ones stopped, so that the file's size, not a pass's,
// decides what the host may have cached.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <numeric>

#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"

namespace weightpager {

/// Chunk-sized buffers in huge pages, as far as the system has them, touched once, used in turn.
class RawBuffers {
 public:
  static constexpr uint64_t count = 128;

  RawBuffers() : mapped_bytes_((count + 1) * chunk_bytes_max) {
    memory_ =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    first_ = reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<uintptr_t>(memory_), chunk_bytes_max));
    madvise(first_, count * chunk_bytes_max, MADV_HUGEPAGE);
    madvise(first_, count * chunk_bytes_max, MADV_POPULATE_WRITE);
  }
  ~RawBuffers() { munmap(memory_, mapped_bytes_); }
  RawBuffers(const RawBuffers&) = delete;
  RawBuffers& operator=(const RawBuffers&) = delete;

  std::byte* at(uint64_t buffer) const { return first_ + buffer * chunk_bytes_max; }

 private:
  size_t mapped_bytes_;
  void* memory_;
  std::byte* first_;
};

/// The next `reads` reads of the file, of `length_bytes` each (at most chunk_bytes_max), `depth` in
/// flight. Returns whether all arrived. Requires a file of at least one read.
inline bool read_raw(io::Reader& reader, const io::ModelFile& file, const RawBuffers& buffers,
                     uint64_t reads, uint32_t length_bytes, uint32_t depth) {
  static uint64_t next = 0;
  const uint64_t reads_of_file = file.size_bytes() / length_bytes;
  const uint64_t end = next + reads;
  std::deque<uint64_t> free_buffers(RawBuffers::count);
  std::iota(free_buffers.begin(), free_buffers.end(), 0);
  bool all_arrived = true;
  while (next < end || reader.reads_in_flight() > 0) {
    for (; next < end && reader.reads_in_flight() < depth; next++) {
      reader.start({.tag = free_buffers.front(),
                    .fd = file.fd(),
                    .offset_bytes = next % reads_of_file * length_bytes,
                    .length_bytes = length_bytes,
                    .buffer = buffers.at(free_buffers.front())});
      free_buffers.pop_front();
    }
    for (const io::Completion& completion : reader.wait(-1).completions) {
      all_arrived &= completion.length_bytes == length_bytes;
      free_buffers.push_back(completion.tag);
    }
  }
  return all_arrived;
}

}  // namespace weightpager
