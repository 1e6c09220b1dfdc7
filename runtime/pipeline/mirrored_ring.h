// A ring buffer in which nothing is ever split.
//
// Problem. Layers of all sizes go through a ring; one that reaches over its end would have to be
// computed in two parts, or the space before the end left empty, which costs window and makes the
// delay rise and fall as the window grows (research on Algorithm 1: up to 10 MiB on YOLOv4).
//
// Idea. The same memory is mapped twice, one behind the other: what reaches over the end of the
// first mapping lies at the beginning of the ring, and still is one piece. The memory is of huge
// pages where the kernel makes them (Linux 6.1), which every read into it is cheaper for.
//
// Cost: address space; page table entries for what is looked at through the second mapping, which
// count as resident memory once more. `forget_mirror` takes them away again, but for the first
// 4 MiB: a ring of 8 MiB comes round 30 times in a pass of YOLOv4, and each time to make 900
// entries anew keeps those waiting that compute (0.2 ms). About 0.5 ms per MiB, once, to make huge
// pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pager/base/result.h"

namespace weightpager::pipeline {

/// What mends that there is no memory for rings and for weights that stay.
inline constexpr const char* smaller_window =
    "choose a smaller --window, or raise the memory limit";

/// Owns the memory. Movable. Threads may use different parts at once.
class MirroredRing {
 public:
  /// `capacity_bytes`: a multiple of the page size; 0 makes an empty ring. All memory is there when
  /// this returns.
  static Result<MirroredRing> make(uint64_t capacity_bytes);

  MirroredRing() = default;
  MirroredRing(MirroredRing&& other) noexcept { *this = std::move(other); }
  MirroredRing& operator=(MirroredRing&& other) noexcept {
    std::swap(reservation_, other.reservation_);
    std::swap(base_, other.base_);
    std::swap(capacity_bytes_, other.capacity_bytes_);
    return *this;
  }
  ~MirroredRing();

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  /// `capacity_bytes` bytes are there from each offset below `capacity_bytes` on.
  std::byte* at(uint64_t offset_bytes) const { return base_ + offset_bytes; }

  /// Most that counts twice in the process's resident memory, for good.
  static constexpr uint64_t mirror_kept_bytes = 4u << 20;

  /// The piece was used for the last time. What of it lay further beyond the end of the first
  /// mapping no longer counts twice in the process's resident memory; the bytes stay.
  void forget_mirror(uint64_t offset_bytes, uint64_t length_bytes) const;

 private:
  std::byte* reservation_ = nullptr;
  std::byte* base_ = nullptr;  // in it, where a huge page may begin
  uint64_t capacity_bytes_ = 0;
};

}  // namespace weightpager::pipeline
