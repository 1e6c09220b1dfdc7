// A pager without a disk: drives a policy with touches, completes reads after a number of touches,
// and checks on every step that the policy asks only for what is possible.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <set>
#include <vector>

#include "pager/policy/pin_stream.h"
#include "pager/window/chunk_table.h"

namespace weightpager::policy {

template <typename Kind>
class SimulationOf {
 public:
  struct Counts {
    uint64_t reads = 0;
    uint64_t demand_reads = 0;
    uint64_t faults = 0;
    uint64_t evictions = 0;
  };

  /// `keeps_slot`: as mapper `move` does. `copy` frees the slot of a mapped chunk. `slots`: less
  /// than the window has, if the others have no memory yet.
  SimulationOf(uint32_t chunks, uint32_t window, Settings settings = {}, bool keeps_slot = true,
               uint32_t slots = UINT32_MAX)
      : table(window), policy(table, settings), keeps_slot_(keeps_slot) {
    table.add_chunks(chunks);
    while (slots_ < std::min(slots, window)) table.add_slot(slots_++);
  }

  SimulationOf(const SimulationOf&) = delete;  // the policy refers to the table
  SimulationOf& operator=(const SimulationOf&) = delete;

  static std::vector<ChunkId> range(ChunkId first, ChunkId end) {
    std::vector<ChunkId> chunks(end - first);
    std::iota(chunks.begin(), chunks.end(), first);
    return chunks;
  }

  /// The engine reads one byte of the chunk. Reads that are in flight advance by one step.
  void touch(ChunkId chunk, uint32_t offset_bytes = anywhere) {
    complete_reads(1);
    run();
    if (table.state(chunk) == ChunkState::mapped) return;
    ++counts.faults;
    policy.on_touch(chunk, offset_bytes);
    if (table.state(chunk) == ChunkState::ready) table.map(chunk, keeps_slot_);
    waiting_ = chunk;
    run();
    for (int steps = 0; table.state(chunk) != ChunkState::mapped; ++steps) {
      ASSERT_LT(steps, 10000) << "chunk " << chunk << " never arrives";
      if (in_flight_.empty() && !table.is_slot_coming()) policy.on_standstill();
      complete_reads(1);
      // Memory comes, in the end.
      if (table.is_slot_coming() && steps % 8 == 7) table.add_slot(slots_++);
      run();
    }
    waiting_ = window::no_chunk;
  }

  /// Touches all of them in order and returns what that cost.
  Counts pass(const std::vector<ChunkId>& chunks) {
    const Counts before = counts;
    for (ChunkId chunk : chunks) touch(chunk);
    return counts_since(before);
  }

  Counts counts_since(const Counts& before) const {
    return {counts.reads - before.reads, counts.demand_reads - before.demand_reads,
            counts.faults - before.faults, counts.evictions - before.evictions};
  }

  void run() {
    for (int actions = 0;; ++actions) {
      ASSERT_LT(actions, 100000) << "the policy never comes to rest";
      const Action action = policy.next();
      switch (action.kind) {
        case Action::Kind::none:
          return;
        case Action::Kind::read:
          ASSERT_GT(table.room(), 0u);
          table.start_read(action.chunk);
          if (!never_read.contains(action.chunk)) in_flight_.push_back(action.chunk);
          ++counts.reads;
          counts.demand_reads += action.is_demand;
          break;
        case Action::Kind::evict:
          ++eviction_actions;
          for (uint32_t i = 0; i < action.count; ++i) evict(action.chunk + i);
          break;
        case Action::Kind::hide:
          ASSERT_NE(table.slot(action.chunk), window::no_slot);
          if (!can_hide || is_kept(action.chunk)) {
            policy.on_not_hidden(action.chunk);
            break;
          }
          table.hide(action.chunk);
          break;
      }
      ASSERT_LE(table.resident(), table.resident_max());
    }
  }

  /// After the window was made smaller: evicts until what is resident fits.
  void shrink() {
    complete_reads(static_cast<uint32_t>(in_flight_.size()));
    while (table.resident() > table.resident_max()) {
      const Action action = policy.next();
      ASSERT_EQ(action.kind, Action::Kind::evict);
      for (uint32_t i = 0; i < action.count; ++i) evict(action.chunk + i);
    }
  }

  /// The window is made larger, and has its memory at once.
  void grow(uint32_t window) {
    while (slots_ < window) table.add_slot(slots_++);
    table.set_resident_max(window);
    policy.on_resized();
    run();
  }

  void complete_reads(uint32_t reads) {
    for (; reads > 0 && !in_flight_.empty(); --reads) {
      const ChunkId chunk = in_flight_.front();
      in_flight_.pop_front();
      table.finish_read(chunk);
      if (policy.on_ready(chunk) || chunk == waiting_) table.map(chunk, keeps_slot_);
    }
  }

  ChunkTable table;
  Kind policy;
  Counts counts;
  std::set<ChunkId> kept_by_the_kernel;  // evicting and hiding these is refused while mapped
  bool can_hide = true;                  // otherwise hiding fails, as where the engine may write
  std::set<ChunkId> never_read;          // reading these never ends
  int refusals = 0;
  uint64_t eviction_actions = 0;

 private:
  void evict(ChunkId chunk) {
    if (is_kept(chunk)) {
      ++refusals;
      policy.on_refused(chunk);
      return;
    }
    table.release(chunk);
    ++counts.evictions;
  }
  bool is_kept(ChunkId chunk) const {
    return table.state(chunk) == ChunkState::mapped && kept_by_the_kernel.contains(chunk);
  }

  bool keeps_slot_;
  window::SlotId slots_ = 0;  // that have memory
  std::deque<ChunkId> in_flight_;
  ChunkId waiting_ = window::no_chunk;
};

using Simulation = SimulationOf<PinStream>;

}  // namespace weightpager::policy
