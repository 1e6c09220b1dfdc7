// `double-buffer`: two halves of the window in turn.
//
// The engine computes from one half while the other is read; when it comes to the other, the first
// is free at once. The simplest schedule that hides reads, at the price that whatever is in memory
// was read for this pass. Two chunks stay free for touches that are out of order.
#pragma once

#include "pager/policy/pieces_ahead.h"

namespace weightpager::policy {

class DoubleBuffer final : public PiecesAhead {
 public:
  using PiecesAhead::PiecesAhead;

 private:
  std::vector<uint32_t> cut() const override;
};

}  // namespace weightpager::policy
