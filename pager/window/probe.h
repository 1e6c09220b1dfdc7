// Whether a mapper works here, found by trying it with one chunk of real memory.
//
// Kernels, containers and security modules may each refuse a call; a version number tells little.
// Cost: some 100 µs a mapper, once.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "pager/base/result.h"
#include "pager/window/address_space.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// "the mapper 'NAME' does not work here: STEP: " and what errno says.
tl::unexpected<Error> mapper_refused(const char* name, const char* step);
/// "the mapper 'NAME' needs WHAT".
tl::unexpected<Error> mapper_too_old(const char* name, const char* what);

/// A region of one chunk, and the bytes that it is to show.
class ProbedChunk {
 public:
  /// Bytes in private memory, with the flags of the slot pool's memory.
  static Result<ProbedChunk> of_slot(const char* mapper, AddressSpace& space, uint64_t chunk_bytes);
  /// Bytes in memory that the region is a view of; not registered with the userfaultfd.
  static Result<ProbedChunk> of_view(const char* mapper, AddressSpace& space, uint64_t chunk_bytes,
                                     int view_fd, int sharing, std::byte* bytes);
  ProbedChunk(ProbedChunk&& other) noexcept;
  ~ProbedChunk();
  ProbedChunk& operator=(ProbedChunk&&) = delete;

  std::byte* bytes() const { return bytes_; }
  Region& region() { return *region_; }

  /// Calls `show(region, bytes)`, looks at what the region shows, and calls `hide(region, bytes)`.
  /// Then the bytes have to be where they were, or (`copy`) a copy of them.
  template <typename Show, typename Hide>
  Status show_and_hide(Show show, Hide hide) {
    fill();
    if (show(*region_, bytes_) != fault::Outcome::done) {
      return mapper_refused(mapper_, "mapping a chunk");
    }
    if (!shows_bytes(region_->chunk_address(0))) {
      return mapper_refused(mapper_, "the mapped chunk has other bytes than its slot");
    }
    if (hide(*region_, bytes_) != fault::Outcome::done) {
      return mapper_refused(mapper_, "unmapping a chunk");
    }
    if (shows_bytes(bytes_)) return {};
    return mapper_refused(mapper_, "the slot has other bytes than the chunk had");
  }

 private:
  ProbedChunk(const char* mapper, uint64_t chunk_bytes)
      : mapper_(mapper), chunk_bytes_(chunk_bytes) {}
  void fill() const;
  bool shows_bytes(const std::byte* chunk) const;

  const char* mapper_;
  uint64_t chunk_bytes_;
  void* scratch_ = nullptr;
  std::byte* bytes_ = nullptr;
  std::unique_ptr<Region> region_;
};

}  // namespace weightpager::window
