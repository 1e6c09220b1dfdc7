#include "pager/spill/free_places.h"

#include <bit>

#include "pager/base/assert.h"

namespace weightpager::spill {

bool FreePlaces::contains(uint64_t place) const {
  const Words& words = storeys_.front();
  return place / bits < words.size() && (words[place / bits] >> place % bits & 1) != 0;
}

void FreePlaces::add(uint64_t place) {
  WP_ASSERT(!contains(place));
  make_room_for(place);
  count_++;
  for (Words& words : storeys_) {
    words[place / bits] |= uint64_t{1} << place % bits;
    place /= bits;
  }
}

void FreePlaces::take(uint64_t place) {
  WP_ASSERT(contains(place));
  count_--;
  for (Words& words : storeys_) {
    words[place / bits] &= ~(uint64_t{1} << place % bits);
    if (words[place / bits] != 0) return;
    place /= bits;
  }
}

std::optional<uint64_t> FreePlaces::lowest() const {
  if (count_ == 0) return std::nullopt;
  uint64_t place = 0;
  for (auto words = storeys_.rbegin(); words != storeys_.rend(); ++words) {
    place = place * bits + static_cast<uint64_t>(std::countr_zero((*words)[place]));
  }
  return place;
}

void FreePlaces::make_room_for(uint64_t place) {
  for (size_t storey = 0;; ++storey) {
    place /= bits;
    if (storeys_[storey].size() <= place) storeys_[storey].resize(place + 1);
    if (storeys_[storey].size() == 1) return;
    if (storey + 1 < storeys_.size()) continue;
    // What was the highest storey has more than one word now; the first of them may have bits.
    storeys_.push_back(Words(1, storeys_[storey].front() != 0 ? 1 : 0));
  }
}

}  // namespace weightpager::spill
