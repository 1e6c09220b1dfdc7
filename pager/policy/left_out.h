// Chunks that are left out of the order: those of files that the engine has presumably copied, and
// those without which passes went by.
//
// Problem. Whether an engine uses what it has copied is known when a pass is over, and then only of
// that pass. In an order, such chunks would be read ahead in vain; outside of it, they would be
// waited for in each pass. The same is true of chunks that lost their place because nobody saw a
// touch of them.
//
// Idea. A copied chunk that is touched has come back. When a pass is over, what came back by then
// joins the order. Later it does so when the engine waits for such chunks once more. If many come
// back, it was wrong to leave them out: all join. A chunk that lost its place was left untouched by
// passes, so it has to be waited for several times, in one pass or in passes that follow each
// other: an embedding's chunks are touched now and then, and are better off outside.
//
// Cost: O(1) a touch, but O(N) for one with which chunks join, and to begin; 7 bytes for each
// chunk. `note_touch` does not allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "pager/policy/chunk_order.h"
#include "pager/policy/pass_order.h"
#include "pager/policy/reordered.h"

namespace weightpager::policy {

class LeftOut {
 public:
  /// Which chunks are to join the order now.
  enum class Joining { none, what_came_back, all };

  /// `chunks`, and those of before, as far as they are among `all`, an order without duplicates.
  /// The table has `table_chunks`.
  void begin(std::vector<ChunkId> all, std::span<const ChunkId> chunks, uint32_t table_chunks) {
    all_ = std::move(all);
    states_.resize(table_chunks, State::joined);
    lost_.assign(table_chunks, {});
    is_of_all_.assign(table_chunks, false);
    for (const ChunkId chunk : chunks) states_[chunk] = State::away;
    std::vector<State> before(table_chunks, State::joined);
    before.swap(states_);
    away_ = back_ = waits_ = 0;
    for (const ChunkId chunk : all_) {
      is_of_all_[chunk] = true;
      states_[chunk] = before[chunk] == State::dropped ? State::joined : before[chunk];
      away_ += before[chunk] == State::away;
      back_ += before[chunk] == State::back;
    }
  }

  /// The chunks of `all` that belong to the order now, in the order of `all`.
  std::vector<ChunkId> others() const { return those_in(State::joined); }
  /// What was touched and has not joined the order yet.
  std::vector<ChunkId> came_back() const { return those_in(State::back); }

  /// The chunk lost its place in the order, because passes went by without it.
  void drop(ChunkId chunk) {
    states_[chunk] = State::dropped;
    lost_[chunk] = {};
    // Of sparse chunks the order has those that passes were found to use.
    if (!is_of_all_[chunk]) all_.push_back(chunk);
    is_of_all_[chunk] = true;
  }
  void end_pass() { ++passes_; }

  /// The engine touched a chunk that is not in the order.
  Joining note_touch(ChunkId chunk, bool is_absent) {
    if (states_[chunk] == State::joined) return Joining::none;
    if (states_[chunk] == State::dropped) return note_lost(chunk, is_absent);
    if (states_[chunk] == State::back) {
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
  /// `order` with the chunks that came back, each behind the chunk that it follows in `all`, or, if
  /// it was sparse, at the end. They belong to the order from now on.
  std::vector<ChunkId> join(const PassOrder& order) {
    std::vector<ChunkId> with;
    std::ranges::copy_if(all_, std::back_inserter(with), [&](ChunkId chunk) {
      return order.contains(chunk) || states_[chunk] == State::back;
    });
    std::ranges::copy_if(order.first_visits(), std::back_inserter(with),
                         [&](ChunkId chunk) { return !is_of_all_[chunk]; });
    std::ranges::replace(states_, State::back, State::joined);
    back_ = waits_ = 0;
    return reordered(with, order.chunks());
  }

 private:
  enum class State : uint8_t { joined, away, dropped, back };

  struct Lost {
    uint8_t waits = 0;   // in passes that followed each other
    uint8_t passes = 0;  // passes_ at the last touch
  };

  bool is_lately(const Lost& it) const { return static_cast<uint8_t>(passes_ - it.passes) <= 1; }

  Joining note_lost(ChunkId chunk, bool is_absent) {
    Lost& it = lost_[chunk];
    if (!is_lately(it)) it.waits = 0;
    it.passes = passes_;
    if (!is_absent || ++it.waits < waits_of_lost_max) return Joining::none;
    // Others that were waited for lately are about to follow.
    for (const ChunkId other : all_) {
      const Lost& lost = lost_[other];
      if (states_[other] != State::dropped || !is_lately(lost)) continue;
      if (lost.waits < waits_of_lost_max / 2) continue;
      states_[other] = State::back;
      ++back_;
    }
    return Joining::what_came_back;
  }

  std::vector<ChunkId> those_in(State state) const {
    std::vector<ChunkId> found;
    std::ranges::copy_if(all_, std::back_inserter(found),
                         [&](ChunkId chunk) { return states_[chunk] == state; });
    return found;
  }

  // So many may come back, or a quarter of all, before all do.
  static constexpr uint32_t back_max = 8;
  static constexpr uint32_t waits_max = 8;
  static constexpr uint8_t waits_of_lost_max = 4;

  std::vector<ChunkId> all_;
  std::vector<State> states_;  // by chunk
  std::vector<Lost> lost_;     // by chunk, of those that lost their place
  std::vector<bool> is_of_all_;
  uint8_t passes_ = 0;  // modulo 256
  uint32_t away_ = 0;
  uint32_t back_ = 0;
  uint32_t waits_ = 0;  // for chunks that came back, since some joined
};

}  // namespace weightpager::policy
