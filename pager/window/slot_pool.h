// The window's memory: slots of 2 MiB, recycled and never freed.
//
// Getting memory from the kernel is dear (a huge page is zeroed: 0.1 to 1.5 ms), so slots are made
// once, by a thread that stays a few slots ahead of the pager while the window fills, and circulate
// from then on. A window larger than the model needs is never filled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/window/chunk_table.h"

namespace weightpager::window {

class SlotPool {
 public:
  /// Reserves address space for `slots` slots; no memory yet.
  static Result<std::unique_ptr<SlotPool>> create(uint32_t slots);
  ~SlotPool();

  uint32_t slots() const { return slots_; }
  std::byte* address(SlotId slot) const { return base_ + uint64_t{slot} * chunk_bytes; }

  /// Slots [0, populated()) have memory. Any thread.
  uint32_t populated() const { return populated_.load(std::memory_order_acquire); }

  /// Asks for memory behind slots [0, wanted); returns at once. `announce` is called on the pool's
  /// thread after each batch and must be safe there. The thread starts at the first call.
  void want(uint32_t wanted, void (*announce)(void*), void* context);

 private:
  SlotPool() = default;
  void populate_ahead(void (*announce)(void*), void* context);

  void* reservation_ = nullptr;
  uint64_t reservation_bytes_ = 0;
  std::byte* base_ = nullptr;
  uint32_t slots_ = 0;
  std::atomic<uint32_t> populated_{0};
  std::atomic<uint32_t> wanted_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weightpager::window
