// The order in pieces: while the engine is in one, the next is read; the others make room.
//
// What `next-layer` and `double-buffer` share; they differ in where they cut. The first chunk of
// every piece is a tripwire: touching it says that the engine has come there. Cost: O(1) a touch,
// O(chunks of two pieces) when the engine comes to another.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/policy_base.h"

namespace weightpager::policy {

class PiecesAhead : public PolicyBase {
 public:
  using PolicyBase::PolicyBase;

  void on_resized() final { use_order(); }

 protected:
  /// Where in the order pieces begin, ascending, the first at 0. The order is not empty.
  virtual std::vector<uint32_t> cut() const = 0;

 private:
  void use_order() final;
  void touched(ChunkId chunk) final;
  bool arrived(ChunkId chunk) final;
  ChunkId next_hold() final;
  ChunkId next_ahead() final;
  bool may_go(ChunkId chunk) const final;

  uint32_t piece_of(uint32_t position) const;
  uint32_t length_of(uint32_t piece) const;
  uint32_t next_piece() const { return (here_ + 1) % static_cast<uint32_t>(begins_.size()); }
  ChunkId first_of_next() const { return order().cyclic[begins_[next_piece()]]; }

  std::vector<uint32_t> begins_;
  uint32_t here_ = nowhere;  // the piece that the engine is in
  uint32_t place_ = 0;       // the furthest in it that was seen
  uint32_t asked_ = 0;       // of this piece and the next, so many were there or asked for
  bool has_held_ = true;     // the next one's first chunk
};

}  // namespace weightpager::policy
