#include "pager/policy/second_chance.h"

namespace weightpager::policy {

void SecondChance::reset(uint32_t chunks) {
  members_.clear();
  members_.reserve(chunks);
  is_member_.assign(chunks, false);
  is_touched_.assign(chunks, false);
  hand_ = 0;
}

void SecondChance::clear() {
  for (ChunkId chunk : members_) is_member_[chunk] = false;
  members_.clear();
  hand_ = 0;
}

void SecondChance::add(ChunkId chunk) {
  if (is_member_[chunk]) return;
  is_member_[chunk] = true;
  members_.push_back(chunk);
}

// The last member takes the place of the one that is removed.
void SecondChance::remove_at_hand() {
  is_member_[members_[hand_]] = false;
  members_[hand_] = members_.back();
  members_.pop_back();
}

}  // namespace weightpager::policy
