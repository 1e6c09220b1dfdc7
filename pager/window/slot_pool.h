// The window's memory: slots of a chunk's size, recycled.
//
// Getting memory from the kernel is dear (a huge page is zeroed: 0.1 to 1.5 ms), so slots are made
// once, by threads that stay a few slots ahead of the pager while the window fills, and circulate
// from then on. A window larger than the model needs is never filled. Where chunks are copied into
// a region, or the window shrinks, slots can be emptied (their memory goes back to the kernel) and
// filled again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/window/chunk_table.h"

namespace weightpager::window {

struct SlotPoolOptions {
  /// Engine threads wait for the memory of this many slots, the first ones. The other slots are for
  /// a window that grows, and get their memory while the engine computes.
  uint32_t urgent_slots = UINT32_MAX;
  /// Called on the pool's threads before they get memory for some slots, with the first of these
  /// slots: for tests of memory that comes slowly.
  std::function<void(SlotId)> before_memory;
};

class SlotPool {
 public:
  /// Reserves address space for `slots` slots; no memory yet.
  static Result<std::unique_ptr<SlotPool>> create(uint32_t slots, uint64_t chunk_bytes,
                                                  SlotPoolOptions options = {});
  ~SlotPool();

  uint32_t slots() const { return slots_; }
  std::byte* address(SlotId slot) const { return base_ + uint64_t{slot} * chunk_bytes_; }

  /// Slots [0, populated()) have memory. Any thread.
  uint32_t populated() const { return populated_.load(std::memory_order_acquire); }
  /// Slots [0, wanted()) have memory or will get it.
  uint32_t wanted() const { return wanted_.load(std::memory_order_relaxed); }

  /// Asks for memory for slots [0, wanted). Returns at once, unless no thread can be started: the
  /// caller then gets the memory itself. `announce` is called on the pool's threads as populated()
  /// grows and must be safe there. The threads start at the first call, and end when every slot has
  /// memory.
  void want(uint32_t wanted, void (*announce)(void*), void* context);

  /// `empty` gives the memory of a slot back to the kernel, and `refill` gets it again. One thread
  /// at a time. A slot that is refilled must not be registered with a userfaultfd.
  void empty(SlotId slot);
  void refill(SlotId slot);

 private:
  // Large enough that the pager is told seldom, small enough that the first reads start at once.
  static constexpr uint64_t batch_bytes = 16 * MiB;

  SlotPool(uint32_t slots, uint64_t chunk_bytes, SlotPoolOptions options)
      : options_(std::move(options)),
        chunk_bytes_(chunk_bytes),
        batch_slots_(static_cast<uint32_t>(batch_bytes / chunk_bytes)),
        slots_(slots),
        is_finished_((slots + batch_slots_ - 1) / batch_slots_) {}
  void populate_ahead(void (*announce)(void*), void* context);
  void populate_batch(uint32_t first);
  bool finish_batch(uint32_t batch);

  const SlotPoolOptions options_;
  const uint64_t chunk_bytes_;
  const uint32_t batch_slots_;
  const uint32_t slots_;
  void* reservation_ = nullptr;
  uint64_t reservation_bytes_ = 0;
  std::byte* base_ = nullptr;
  std::atomic<uint32_t> populated_{0};
  std::atomic<uint32_t> wanted_{0};
  std::atomic<uint32_t> next_batch_{0};
  std::atomic<bool> stopping_{false};
  // Batches may finish out of order; slots are handed out in order. Only the pool's threads lock
  // this.
  Mutex mutex_;
  std::vector<bool> is_finished_ WP_GUARDED_BY(mutex_);
  Mutex growing_mutex_;  // held while memory that is not urgent is got
  std::array<std::thread, 2> threads_;
};

}  // namespace weightpager::window
