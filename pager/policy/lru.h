// `lru`: reads what is touched and nothing else; what was not touched for longest goes.
//
// Touches of mapped chunks are not seen. So only the newer half of the window is mapped; the older
// half is taken out of the engine's sight with its bytes kept, where a touch costs microseconds and
// makes the chunk new again. (VAX/VMS did so for want of a referenced bit.) Cost: O(1) an event.
#pragma once

#include "pager/policy/policy_base.h"

namespace weightpager::policy {

class Lru : public PolicyBase {
 public:
  using PolicyBase::PolicyBase;

 protected:
  void use_order() override { mapped_.reset(table_.chunks()); }
  void touched(ChunkId chunk) override {
    PolicyBase::touched(chunk);
    mapped_.put_front(chunk);
  }
  ChunkId next_hold() override;

 private:
  ChunkList mapped_;  // the newer half, oldest last
};

}  // namespace weightpager::policy
