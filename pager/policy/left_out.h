// Chunks of files that are left out of the order, because the engine has presumably copied them.
//
// Problem. Whether an engine uses what it has copied is known when a pass is over, and then only of
// that pass. In an order, such chunks would be read ahead in vain; outside of it, they would be
// waited for in each pass.
//
// Idea. One that is touched has come back. When a pass is over, what came back by then joins the
// order. Later it does so when the engine waits for such chunks once more. If many come back, it
// was wrong to leave them out: all join.
//
// Cost: O(1) a touch, O(N) to begin; a byte for each chunk. Only `begin` allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class LeftOut {
 public:
  /// Which chunks are to join the order now.
  enum class Joining { none, what_came_back, all };

  /// `chunks`, and those of before, as far as they are among `order`. The table has `table_chunks`.
  void begin(std::span<const ChunkId> order, std::span<const ChunkId> chunks,
             uint32_t table_chunks) {
    states_.resize(table_chunks, State::joined);
    for (const ChunkId chunk : chunks) states_[chunk] = State::away;
    std::vector<State> before(table_chunks, State::joined);
    before.swap(states_);
    away_ = back_ = waits_ = 0;
    for (const ChunkId chunk : order) {
      states_[chunk] = before[chunk];
      away_ += before[chunk] == State::away;
      back_ += before[chunk] == State::back;
    }
  }

  bool contains(ChunkId chunk) const { return states_[chunk] != State::joined; }
  bool has_come_back(ChunkId chunk) const { return states_[chunk] == State::back; }

  /// The engine touched a chunk that is not in the order.
  Joining note_touch(ChunkId chunk, bool is_absent) {
    if (states_[chunk] == State::joined) return Joining::none;
    if (has_come_back(chunk)) {
      waits_ += is_absent;
      return waits_ < std::min(waits_max, back_) ? Joining::none : Joining::what_came_back;
    }
    states_[chunk] = State::back;
    --away_;
    ++back_;
    return back_ <= std::max(back_max, away_ / 3) ? Joining::none : Joining::all;
  }
  /// All that are away come back.
  void bring_back() {
    std::ranges::replace(states_, State::away, State::back);
    away_ = 0;
  }
  /// What came back is in the order from now on.
  void join() {
    std::ranges::replace(states_, State::back, State::joined);
    back_ = waits_ = 0;
  }

 private:
  enum class State : uint8_t { joined, away, back };

  // So many may come back, or a quarter of all, before all do.
  static constexpr uint32_t back_max = 8;
  static constexpr uint32_t waits_max = 8;

  std::vector<State> states_;  // by chunk
  uint32_t away_ = 0;
  uint32_t back_ = 0;
  uint32_t waits_ = 0;  // for chunks that came back, since some joined
};

}  // namespace weightpager::policy
