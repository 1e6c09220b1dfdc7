// The order in which every pass touches its chunks, as far as it is known now.
//
// A pass touches each chunk of the order once; the end of a pass is the beginning of the next one.
// So a position in the order says which chunk it is, and a place, which counts on across passes,
// says how far the engine has come: place = pass · size + position. With the order goes its pace:
// how long the engine computes from each chunk.
//
// Cost: O(1) a question, O(N) when the order changes; 4 bytes for each chunk of the table, 4 or 8
// for each chunk of the order.
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

  /// Makes the order empty. The table has `chunks` chunks.
  void reset(uint32_t chunks);
  /// Replaces the order by this one, which has no duplicates, and forgets the pace.
  void install(std::vector<ChunkId> order);
  /// Takes out all chunks of which `is_gone` is true. The others keep their pace.
  void erase_if(const std::function<bool(ChunkId)>& is_gone);
  /// How long the engine computes from each chunk of the order, in any unit.
  void set_pace(std::vector<float> pace);

  uint32_t size() const { return static_cast<uint32_t>(chunks_.size()); }
  std::span<const ChunkId> chunks() const { return chunks_; }
  ChunkId operator[](uint32_t position) const { return chunks_[position]; }
  /// Requires that the order is not empty.
  ChunkId chunk_at(uint64_t place) const { return chunks_[place % chunks_.size()]; }
  /// Where the chunk is in the order, or `nowhere`.
  uint32_t position(ChunkId chunk) const { return positions_[chunk]; }
  bool contains(ChunkId chunk) const { return positions_[chunk] != nowhere; }
  /// By position. Empty if no pace is known: all chunks then count as equally long.
  std::span<const float> pace() const { return pace_; }

 private:
  void index_positions();

  std::vector<ChunkId> chunks_;
  std::vector<uint32_t> positions_;  // by chunk
  std::vector<float> pace_;
};

}  // namespace weightpager::policy
