// The state behind spilled_blocks.h, for the files that share it: spilled_blocks.cc for blocks of
// malloc, and mapped_blocks.cc for those of mmap.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "pager/base/mutex.h"
#include "pager/base/span.h"
#include "pager/preload/large_blocks.h"
#include "pager/preload/short_lived_blocks.h"
#include "pager/preload/shown_blocks.h"
#include "pager/preload/spilled_memory.h"

namespace weightpager::preload {

/// A mapping that is the kernel's, because it is one of the first blocks, or of those that do not
/// live long.
struct PlainMapping {
  uintptr_t begin = 0;  // 0 for none
  uintptr_t end = 0;
  size_t first_bytes = 0;  // what it counts of the first blocks; 0: a short-lived one
};

// Never destroyed: engine threads give blocks back until the process is gone.
struct SpillingState {
  LargeBlocks blocks{spilled_chunk_bytes};
  LargeBlocks plain{spilled_chunk_bytes};
  LargeBlocks mapped{spilled_chunk_bytes};
  ShownBlocks shown;  // of those that the pager serves
  Span plain_memory;  // empty if there is none
  // Held by a thread that changes mappings, also while it waits for the pager, which never takes
  // it. The mutexes are taken in this order.
  Mutex mapping;
  Mutex growing;  // held while an arena is added
  uint64_t arenas_bytes WP_GUARDED_BY(growing) = 0;
  bool has_told_of_no_room WP_GUARDED_BY(growing) = false;
  Mutex lives_mutex;
  ShortLivedBlocks lives WP_GUARDED_BY(lives_mutex);
  size_t first_bytes WP_GUARDED_BY(lives_mutex) = 0;
  size_t first_bytes_max WP_GUARDED_BY(lives_mutex) = 0;  // 0 once a block was spilled
  std::array<PlainMapping, 64> plain_mappings WP_GUARDED_BY(lives_mutex);
  // In a child process the pager serves nothing.
  std::atomic<bool> is_child{false};
};

/// nullptr: nothing is spilled.
extern SpillingState* spilling;

/// While a thread forks, it holds all locks that the child needs.
extern thread_local bool is_forking __attribute__((tls_model("initial-exec")));

/// To some milliseconds, which is enough for lives.
uint64_t now_ns();

/// A block of more memory than there is yet. Nothing if there can be no more.
std::optional<LargeBlocks::Block> take_from_more_memory(LargeBlocks& from, size_t bytes,
                                                        size_t alignment, uint64_t now);

/// Whether a block of this length is one of the first, which are plain. After the first one that is
/// not, none is.
bool may_be_first(size_t bytes) WP_REQUIRES(spilling->lives_mutex);

// What others see of blocks.
void show_block(const LargeBlocks::Block& block);
void hide_block(const LargeBlocks::Block& block);

}  // namespace weightpager::preload
