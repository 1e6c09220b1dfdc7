// A ring buffer in which no piece is ever split.
//
// Problem. Layers of all sizes go through a ring, and some reach over its end. In a plain ring such
// a layer is computed in two parts, or it begins anew at the ring's start and leaves the space
// before the end empty. Empty space costs window, up to 10 MiB on YOLOv4 (research on Algorithm 1),
// and makes the delay rise and fall as the window grows.
//
// Idea. The same memory is mapped twice in a row. A piece that reaches over the end of the first
// mapping goes on at the beginning of the ring, and is contiguous all the same. The memory consists
// of huge pages where the kernel makes them (Linux 6.1), because reads into huge pages are cheaper.
//
// Cost: address space, and about 0.5 ms per MiB, once, to make huge pages. Pages that are used
// through the second mapping need page table entries, which count as resident memory once more.
// `forget_mirror` drops these entries, except for the first 4 MiB: a ring of 8 MiB comes round 30
// times in a pass of YOLOv4, and each time the threads that compute would wait 0.2 ms for 900 new
// entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pager/base/result.h"

namespace weightpager::pipeline {

/// The hint of errors that say that there is no memory for rings or for pinned weights.
inline constexpr const char* smaller_window =
    "choose a smaller --window, or raise the memory limit";

/// Owns the memory. Movable. Threads may use different parts at once.
class MirroredRing {
 public:
  /// `capacity_bytes`: a multiple of the page size; 0 makes an empty ring. All memory is allocated
  /// when this returns. Fails if there is not enough memory.
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
  /// From each offset below the capacity on, as many bytes as the capacity are contiguous.
  std::byte* at(uint64_t offset_bytes) const { return base_ + offset_bytes; }

  /// At most this much of the ring counts twice in the process's resident memory for good.
  static constexpr uint64_t mirror_kept_bytes = 4u << 20;

  /// To be called when the piece was used for the last time. The part of it that lies more than
  /// `mirror_kept_bytes` beyond the end of the first mapping no longer counts twice in the
  /// process's resident memory. The bytes stay.
  void forget_mirror(uint64_t offset_bytes, uint64_t length_bytes) const;

 private:
  std::byte* reservation_ = nullptr;
  std::byte* base_ = nullptr;  // in the reservation, where a huge page may begin
  uint64_t capacity_bytes_ = 0;
};

}  // namespace weightpager::pipeline
