// Memory of units that stay: read once, never given back while the pipeline lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pager/base/result.h"

namespace weightpager::pipeline {

/// Owns the memory, in the process's address space. Movable.
class PinnedMemory {
 public:
  /// `length_bytes` of 0 makes an empty one. Pages come as they are written to.
  static Result<PinnedMemory> make(uint64_t length_bytes);

  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(length_bytes_, other.length_bytes_);
    return *this;
  }
  ~PinnedMemory();

  std::byte* at(uint64_t offset_bytes) const { return address_ + offset_bytes; }
  uint64_t length_bytes() const { return length_bytes_; }

 private:
  std::byte* address_ = nullptr;
  uint64_t length_bytes_ = 0;
};

}  // namespace weightpager::pipeline
