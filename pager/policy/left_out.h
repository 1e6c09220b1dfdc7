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

#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/chunk_order.h"
#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class LeftOut {
 public:
  /// Which chunks are to join the order now.
  enum class Joining { none, what_came_back, all };

  /// `chunks`, and those of before, as far as they are among `all`, an order without duplicates.
  /// The table has `table_chunks`.
  void begin(std::vector<ChunkId> all, std::span<const ChunkId> chunks, uint32_t table_chunks);
  /// The chunk lost its place in the order, because passes went by without it.
  void drop(ChunkId chunk);
  void end_pass() { ++passes_; }

  /// The chunks of `all` that belong to the order now, in the order of `all`.
  std::vector<ChunkId> others() const { return those_in(State::joined); }
  /// What was touched and has not joined the order yet.
  std::vector<ChunkId> came_back() const { return those_in(State::back); }

  /// The engine touched a chunk that is not in the order.
  Joining note_touch(ChunkId chunk, bool is_absent);
  /// All that are away come back.
  void bring_back();
  /// `order` with the chunks that came back, each behind the chunk that it follows in `all`, or, if
  /// it was sparse, at the end. They belong to the order from now on.
  std::vector<ChunkId> join(const PassOrder& order);

 private:
  enum class State : uint8_t { joined, away, dropped, back };
  struct Lost {
    uint8_t waits = 0;   // in passes that followed each other
    uint8_t passes = 0;  // passes_ at the last touch
  };

  std::vector<ChunkId> those_in(State state) const;
  bool is_lately(const Lost& it) const { return static_cast<uint8_t>(passes_ - it.passes) <= 1; }
  Joining note_lost(ChunkId chunk, bool is_absent);

  std::vector<ChunkId> all_;
  std::vector<State> states_;    // by chunk
  std::vector<Lost> lost_;       // by chunk, of those that lost their place
  std::vector<bool> is_of_all_;  // by chunk: whether all_ has it
  uint8_t passes_ = 0;           // modulo 256
  uint32_t away_ = 0;
  uint32_t back_ = 0;
  uint32_t waits_ = 0;  // for chunks that came back, since some joined
};

}  // namespace weightpager::policy
