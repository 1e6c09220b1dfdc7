#include "pager/policy/learned.h"

#include <algorithm>

namespace weightpager::policy {

void Learned::set_order(const ChunkOrder& order) {
  policy_.set_order(order);
  note_order_change();
  const auto is_known = [](float computed_ns) { return computed_ns > 0; };
  if (std::ranges::none_of(order.access_profile.computed_ns, is_known)) return;
  policy_.set_pace(meter_.begin_with(order.access_profile));
}

void Learned::note_order_change() {
  switch (policy_.take_order_change()) {
    case PassFollower::OrderChange::none:
      return;
    case PassFollower::OrderChange::edited:
      return meter_.order_edited();
    case PassFollower::OrderChange::replaced:
      return meter_.order_replaced();
  }
}

void Learned::on_touch(ChunkId chunk, uint32_t offset_bytes) {
  const ChunkState state = table_.state(chunk);
  policy_.on_touch(chunk, offset_bytes);
  note_order_change();
  if (!meter_.note_touch(chunk, state)) return;
  ++policy_.counters().profiles_learned;
  policy_.set_pace(meter_.pace());
}

bool Learned::on_ready(ChunkId chunk) {
  meter_.note_arrival(chunk);
  return policy_.on_ready(chunk);
}

}  // namespace weightpager::policy
