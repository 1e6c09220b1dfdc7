// `next-layer`: while a layer computes, the next one is read.
//
// The usual schedule of frameworks that offload layers. A layer that takes more than a third of the
// window is cut, so that two pieces and what was just used fit. Nothing is chosen to stay: what the
// window has beyond two layers is the oldest there is, and so is evicted just before it is needed.
#pragma once

#include "pager/policy/pieces_ahead.h"

namespace weightpager::policy {

class NextLayer final : public PiecesAhead {
 public:
  using PiecesAhead::PiecesAhead;

 private:
  std::vector<uint32_t> cut() const override;
};

}  // namespace weightpager::policy
