// `next-layer` and `double-buffer`: the order in pieces. While the engine is in one piece, the next
// one is read; the others make room.
//
// The two policies differ in where they cut the order. `next-layer` is the usual schedule of
// frameworks that offload layers: a piece is a layer, and a layer that takes more than a third of
// the window is cut, so that two pieces and the chunks just used fit. Nothing is chosen to stay:
// the chunks that the window holds beyond two layers are the oldest, and so they are evicted just
// before they are needed. `double-buffer` is the simplest schedule that hides reads: the window has
// two halves, and each is read while the engine computes from the other. Every pass reads the whole
// model. Two chunks stay free for touches that are out of order.
//
// The first chunk of every piece is a tripwire: touching it says that the engine has come there.
// Cost: O(1) a touch, O(chunks of two pieces) when the engine comes to another piece.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/baselines/policy_base.h"

namespace weightpager::policy {

/// What limits the length of a piece.
struct CutLimits {
  uint32_t window_chunks = 0;
  uint64_t chunk_bytes = 0;
};

/// Returns where in the order pieces begin, ascending, the first at 0. The order is not empty.
using CutOrder = std::vector<uint32_t> (*)(const ChunkOrder& order, const CutLimits& limits);

/// For `next-layer`. A file without layers is cut into pieces of 64 MiB.
std::vector<uint32_t> cut_by_layers(const ChunkOrder& order, const CutLimits& limits);
/// For `double-buffer`.
std::vector<uint32_t> cut_by_half_windows(const ChunkOrder& order, const CutLimits& limits);

class PiecesAhead final : public PolicyBase {
 public:
  PiecesAhead(const ChunkTable& table, const Settings& settings, CutOrder cut)
      : PolicyBase(table, settings), cut_(cut) {}

  void on_resized() override { use_order(); }

 private:
  void use_order() override;
  void touched(ChunkId chunk) override;
  bool arrived(ChunkId chunk) override;
  ChunkId next_hold() override;
  ChunkId next_ahead() override;
  bool may_go(ChunkId chunk) const override;

  uint32_t piece_of(uint32_t position) const;
  uint32_t length_of(uint32_t piece) const;
  uint32_t next_piece() const { return (here_ + 1) % static_cast<uint32_t>(begins_.size()); }
  ChunkId first_of_next() const { return order().cyclic[begins_[next_piece()]]; }

  const CutOrder cut_;
  std::vector<uint32_t> begins_;
  uint32_t here_ = nowhere;  // the piece that the engine is in
  uint32_t furthest_ = 0;    // the furthest position in it that was seen
  uint32_t asked_ = 0;       // chunks of this piece and the next that were there or asked for
  bool has_held_ = true;     // the next piece's first chunk was hidden, if it could be
};

}  // namespace weightpager::policy
