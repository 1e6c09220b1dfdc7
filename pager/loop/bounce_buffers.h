// Memory for reads that do not begin where a disk's sector begins.
//
// An engine reads tensors from any byte of a file. A direct read needs a beginning and a length
// that the disk can address, so it fetches a little more than a chunk, into one of these buffers,
// and the chunk's bytes are copied from there.
//
// Cost: a copy of each such chunk, and 4 buffers of a chunk's size beside the window. Used by the
// pager's thread only; `open` alone allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pager/base/result.h"

namespace weightpager {

class BounceBuffers {
 public:
  static constexpr uint32_t count = 4;
  /// A buffer is so much larger than a chunk.
  static constexpr uint64_t margin_bytes = 8192;

  BounceBuffers() = default;
  ~BounceBuffers();
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;

  /// Gets the memory, if there is none yet.
  Status open(uint64_t chunk_bytes);
  /// nullptr: all are in use.
  std::byte* take();
  /// `within`: any byte of the buffer.
  void give(const std::byte* within);
  /// How far behind the buffer's beginning the byte is.
  uint64_t offset_of(const std::byte* within) const;

 private:
  std::byte* memory_ = nullptr;
  uint64_t buffer_bytes_ = 0;
  std::array<bool, count> is_taken_{};
};

}  // namespace weightpager
