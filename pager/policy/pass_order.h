// The order in which every pass touches its chunks, as far as it is known now.
//
// A pass visits the chunks of the order one after the other; the end of a pass is the beginning of
// the next one. Most chunks are visited once. A chunk that two tensors share is visited twice where
// the engine does something else between the two. So a position in the order says which visit it
// is, and a place, which counts on across passes, says how far the engine has come:
// place = pass · size + position. With the order goes its pace: how long the engine computes from
// each chunk.
//
// Of a chunk with several visits some may be wrong: an engine that loads looks at places all over
// the model, and a tensor's border may be said to be visited with a tensor that is not used. A
// visit is certain once the engine was seen to make it, and idle if it was seen not to.
//
// Cost: O(1) a question, O(N) when the order changes; 4 bytes for each chunk of the table, 9 or 13
// for each visit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class PassOrder {
 public:
  /// The position of a chunk that is not part of the order.
  static constexpr uint32_t nowhere = UINT32_MAX;

  /// A visit that is to come behind the position that it names.
  struct Visit {
    uint32_t behind = 0;
    ChunkId chunk = window::no_chunk;
    bool is_certain = false;  // the engine was seen to make it
  };

  /// Makes the order empty. The table has `chunks` chunks.
  void reset(uint32_t chunks);
  /// Replaces the order by this one, and forgets the pace.
  void install(std::vector<ChunkId> order);
  /// Adds visits, each behind a position of the order as it was before. A visit takes its pace from
  /// the one before it.
  void insert(std::vector<Visit> visits);
  /// Takes out all visits at whose position `is_gone` is true. The others keep their pace.
  void erase_if(const std::function<bool(uint32_t)>& is_gone);
  /// How long the engine computes from each chunk of the order, in any unit.
  void set_pace(std::vector<float> pace);

  /// The visits of a pass.
  uint32_t size() const { return static_cast<uint32_t>(chunks_.size()); }
  /// The chunks that a pass visits once or more often.
  uint32_t chunk_count() const { return chunk_count_; }
  /// By position.
  std::span<const ChunkId> chunks() const { return chunks_; }
  /// The same, each chunk at its first visit only.
  std::vector<ChunkId> first_visits() const;
  ChunkId operator[](uint32_t position) const { return chunks_[position]; }
  /// Requires that the order is not empty.
  ChunkId chunk_at(uint64_t place) const { return chunks_[place % chunks_.size()]; }
  /// The first visit of the chunk, or `nowhere`.
  uint32_t position(ChunkId chunk) const { return positions_[chunk]; }
  /// The next visit of the chunk that is visited at `position`, across the end of the pass;
  /// `position` itself if there is one visit only.
  uint32_t next_visit(uint32_t position) const { return next_visits_[position]; }
  /// Calls `act(position)` for each visit of the chunk.
  template <typename Act>
  void for_each_visit(ChunkId chunk, Act act) const {
    if (!contains(chunk)) return;
    const uint32_t first = position(chunk);
    uint32_t at = first;
    do {
      act(at);
      at = next_visit(at);
    } while (at != first);
  }
  /// How many positions before the chunk's next visit, from `position` on. Requires
  /// contains(chunk).
  uint32_t ahead(ChunkId chunk, uint32_t position) const;
  /// How many positions behind the chunk's last visit, up to `position`. Requires contains(chunk).
  uint32_t behind(ChunkId chunk, uint32_t position) const;
  bool contains(ChunkId chunk) const { return positions_[chunk] != nowhere; }
  /// Whether a pass visits the chunk more than once. Requires contains(chunk).
  bool is_revisited(ChunkId chunk) const {
    return next_visits_[positions_[chunk]] != positions_[chunk];
  }

  /// The visit that is nearest to `position`. Requires contains(chunk).
  uint32_t nearest_visit(ChunkId chunk, uint32_t position) const;
  /// The engine made the visit, or did not in this pass. Only the visits of chunks that have
  /// several are doubted.
  void note_made(uint32_t position) { doubts_[position] = certain; }
  void note_not_made(uint32_t position);
  /// Whether it is not known yet if a pass makes this visit.
  bool is_doubtful(uint32_t position) const {
    return next_visits_[position] != position && doubts_[position] != certain;
  }
  /// Whether two passes did not make the visit, and another visit of the chunk is certain.
  bool is_idle(uint32_t position) const;

  /// By position. Empty if no pace is known: all chunks then count as equally long.
  std::span<const float> pace() const { return pace_; }

 private:
  static constexpr uint8_t certain = UINT8_MAX;
  static constexpr uint8_t idle_after = 2;

  void index_positions();

  std::vector<ChunkId> chunks_;
  std::vector<uint8_t> doubts_;  // by position: passes that did not make the visit, or `certain`
  std::vector<uint32_t> positions_;    // by chunk: its first visit
  std::vector<uint32_t> next_visits_;  // by position
  uint32_t chunk_count_ = 0;
  std::vector<float> pace_;
};

}  // namespace weightpager::policy
