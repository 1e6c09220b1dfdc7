// The GPU's own memory: plain, and as a ring in which no piece is split.
//
// Always plain allocations, never managed memory: all of the memory is taken at once and stays on
// the GPU, so a window takes exactly the memory that it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pager/base/result.h"

namespace weightpager::cuda {

/// Owns the memory. Movable.
class DeviceMemory {
 public:
  /// `what` names the memory in messages: "weights". 0 bytes make an empty object.
  static Result<DeviceMemory> make(uint64_t length_bytes, const char* what);

  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(length_bytes_, other.length_bytes_);
    return *this;
  }
  ~DeviceMemory();

  std::byte* at(uint64_t offset_bytes) const { return address_ + offset_bytes; }
  uint64_t length_bytes() const { return length_bytes_; }

 private:
  std::byte* address_ = nullptr;
  uint64_t length_bytes_ = 0;
};

/// A ring like MirroredRing on the host: a piece that begins below the capacity is contiguous. The
/// ring is mapped twice in a row if the driver can do that and the capacity is a multiple of
/// pipeline::gpu_ring_step_bytes. Otherwise there is room for one piece behind the ring's end. One
/// is enough: two pieces that reach over the end at once would be larger than the ring.
class DeviceRing {
 public:
  /// `piece_bytes_max`: the longest piece.
  static Result<DeviceRing> make(uint64_t capacity_bytes, uint64_t piece_bytes_max);

  DeviceRing() = default;
  DeviceRing(DeviceRing&& other) noexcept { *this = std::move(other); }
  DeviceRing& operator=(DeviceRing&& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(plain_, other.plain_);
    return *this;
  }
  ~DeviceRing();

  std::byte* at(uint64_t offset_bytes) const {
    return mapped_ != nullptr ? mapped_ + offset_bytes : plain_.at(offset_bytes);
  }
  bool is_mirrored() const { return mapped_ != nullptr; }

 private:
  // Both mappings together.
  std::byte* mapped_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  DeviceMemory plain_;
};

}  // namespace weightpager::cuda
