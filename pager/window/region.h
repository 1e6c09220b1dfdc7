// The reserved address range that shows one model file, byte for byte.
//
// Chunks lie on the file's 2 MiB grid, so a mapping that starts or ends off the grid has chunks of
// which it shows only a part ("edges"). Only whole chunks are paged: an edge is brought in once,
// page by page, and stays, as does a chunk that the engine unmaps a part of. Beyond the end of the
// file a region behaves as mmap does: zeros to the end of the page, SIGBUS behind it.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/window/chunk_table.h"

namespace weightpager::window {

/// What an engine asked to map: `length_bytes` from `offset_bytes` (a multiple of the page size)
/// on.
struct Extent {
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  uint64_t file_size_bytes = 0;
};

inline constexpr uint64_t pages_per_chunk = chunk_bytes / os_page_bytes;
using PageSet = std::bitset<pages_per_chunk>;

class Region {
 public:
  /// Reserves the range and seals what lies beyond the file's end. Nothing is registered or read
  /// yet.
  static Result<std::unique_ptr<Region>> reserve(const Extent& extent);
  /// Unmaps what is left of it.
  ~Region();

  std::byte* address() const { return address_; }
  uint64_t length_bytes() const { return length_bytes_; }
  const Extent& extent() const { return extent_; }
  /// The part of the range that has file bytes behind it, in whole pages.
  uint64_t live_bytes() const { return live_bytes_; }

  bool contains(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(address_) < length_bytes_;
  }
  uint32_t chunks() const { return chunks_; }
  /// Requires contains(address).
  uint32_t chunk_index(uintptr_t address) const {
    return static_cast<uint32_t>((address - reinterpret_cast<uintptr_t>(grid_)) / chunk_bytes);
  }
  std::byte* chunk_address(uint32_t index) const { return grid_ + uint64_t{index} * chunk_bytes; }
  uint64_t chunk_file_offset(uint32_t index) const {
    return round_down(extent_.offset_bytes, chunk_bytes) + uint64_t{index} * chunk_bytes;
  }
  /// File bytes in a chunk: 2 MiB but for the file's last one.
  uint64_t chunk_file_bytes(uint32_t index) const;

  /// The pages of an edge that the engine can still see; nullptr for a whole chunk.
  const PageSet* edge(uint32_t index) const;

  /// Takes the pages [first, first + count) of a chunk out of the region: the chunk becomes an
  /// edge. Returns true if no page of the chunk is left.
  bool drop_pages(uint32_t index, uint32_t first, uint32_t count);

  /// Calls `act(address, length_bytes)` for each run of pages of a chunk that the engine can see.
  template <typename Act>
  void for_each_live_run(uint32_t index, Act act) const {
    const PageSet* pages = edge(index);
    if (pages == nullptr) return act(chunk_address(index), chunk_bytes);
    for (uint64_t page = 0; page < pages_per_chunk;) {
      uint64_t end = page;
      while (end < pages_per_chunk && pages->test(end)) ++end;
      if (end > page) {
        act(chunk_address(index) + page * os_page_bytes, (end - page) * os_page_bytes);
      }
      page = end + 1;
    }
  }

  /// The engine unmapped the range: it is no longer this object's to unmap.
  void abandon() { address_ = nullptr; }

  /// The range now raises SIGBUS on every touch, for good, whatever becomes of the pager.
  static void seal(void* address, uint64_t length_bytes);

 private:
  Region() = default;

  Extent extent_;
  std::byte* grid_ = nullptr;     // where the file's 2 MiB grid has its last line before address_
  std::byte* address_ = nullptr;  // what the engine gets
  uint64_t length_bytes_ = 0;
  uint64_t live_bytes_ = 0;
  uint32_t chunks_ = 0;
  std::map<uint32_t, PageSet> edges_;
};

}  // namespace weightpager::window
