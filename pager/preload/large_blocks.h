// Large blocks of memory, such as tensors, in address ranges that somebody else provides.
//
// The ranges ("arenas") are served by a pager, in chunks, and most of their pages are absent. So
// nothing here touches a block: what is known of blocks lies outside of them. Blocks begin and end
// at pages and lie side by side, because a chunk at the border of two blocks is better shared than
// wasted. A block goes into the first free part that is long enough; parts that become free join
// their neighbours. But a block of about the length of one that was given back a moment ago gets
// that one's place, which is resident.
//
// For each chunk a counter says how many blocks have a part of it. A pager that takes a chunk out
// of memory asks without a lock: a chunk without a block need not be kept. The counter is raised
// before a block is handed out, so a pager that first takes the chunk out of sight, and then finds
// the counter 0, drops no byte that anybody has written.
//
// No system calls but for its own memory, and no malloc, because malloc stands on it. An operation
// takes O(log n) for n blocks, and one addition for each chunk of the block.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "pager/base/mutex.h"
#include "pager/preload/segments.h"

namespace weightpager::preload {

/// Thread-safe. Never destroyed: blocks are given back until the process is gone.
class LargeBlocks {
 public:
  static constexpr size_t arenas_max = 64;

  struct Block {
    std::byte* begin = nullptr;
    size_t asked_bytes = 0;
    size_t reserved_bytes = 0;  // whole pages
    /// From the beginning on, what may have been part of an earlier block. What lies behind that
    /// was part of none: it is as its provider made it.
    size_t used_bytes = 0;
    uint64_t note = 0;  // the caller's
  };

  /// `chunk_bytes` is a power of two.
  explicit LargeBlocks(size_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  /// Adds a range of whole chunks. Returns false if there is no memory to keep account of it, or if
  /// there are too many ranges.
  bool add_arena(std::byte* begin, std::byte* end);

  /// A block of at least one byte, whose address is a multiple of the alignment, a power of two.
  /// Returns nothing if no arena has room; one more arena of `arena_bytes_for` has.
  std::optional<Block> take(size_t bytes, size_t alignment, uint64_t note);
  size_t arena_bytes_for(size_t bytes, size_t alignment) const;

  /// Gives a block back. Returns what it was, or nothing if no block begins there.
  std::optional<Block> give(const void* begin);
  /// The block that begins there.
  std::optional<Block> find(const void* begin) const;
  /// Whether one block has the whole range.
  bool is_in_one_block(const void* begin, size_t length_bytes) const;
  /// Makes a block shorter or longer at its end. Returns false, and changes nothing, if no block
  /// begins there or if what lies behind the block is not free.
  bool resize_in_place(const void* begin, size_t bytes);

  /// Whether any block has a part of the chunk of an arena. Takes no lock. Arenas have numbers from
  /// 0 on in the order in which they were added.
  bool is_chunk_in_use(size_t arena, size_t chunk) const;

  /// The same for the chunk that begins there. True if no arena has it: then nothing is known.
  bool is_chunk_in_use(const void* chunk) const;

  /// Around a fork, so that the child finds the blocks in order.
  void before_fork() WP_LOCKS(mutex_) { mutex_.lock(); }
  void after_fork() WP_UNLOCKS(mutex_) { mutex_.unlock(); }

 private:
  struct Arena {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uintptr_t used_end = 0;  // nothing behind it was ever part of a block
    std::atomic<uint32_t>* blocks_of_chunk = nullptr;
  };
  /// A block that was given back.
  struct Recent {
    uintptr_t begin = 0;
    size_t length_bytes = 0;
  };

  bool is_in_arena(const void* address) const;
  Segment* block_at(const void* begin) const WP_REQUIRES(mutex_);
  uintptr_t place_given_back(size_t length_bytes, size_t alignment) WP_REQUIRES(mutex_);
  uintptr_t first_place(size_t length_bytes, size_t alignment) const WP_REQUIRES(mutex_);
  /// Makes [begin, begin + length) of a free part a part of its own.
  Segment* carve(uintptr_t begin, size_t length_bytes) WP_REQUIRES(mutex_);
  void free_part(Segment* segment) WP_REQUIRES(mutex_);
  void shorten(Segment* block, size_t length_bytes) WP_REQUIRES(mutex_);
  bool lengthen(Segment* block, size_t length_bytes) WP_REQUIRES(mutex_);
  /// Counts a block that begins (or, with -1, ends) to have [begin, end).
  void count(const Arena& arena, uintptr_t begin, uintptr_t end, int by) WP_REQUIRES(mutex_);
  void mark_used(Arena& arena, uintptr_t end) WP_REQUIRES(mutex_);

  const size_t chunk_bytes_;
  mutable Mutex mutex_;
  // An arena does not change any more, but for `used_end`, once it is counted.
  std::array<Arena, arenas_max> arenas_;
  std::atomic<size_t> arena_count_{0};
  Segments segments_ WP_GUARDED_BY(mutex_);
  std::array<Recent, 16> recent_ WP_GUARDED_BY(mutex_);
  size_t recent_next_ WP_GUARDED_BY(mutex_) = 0;
};

}  // namespace weightpager::preload
