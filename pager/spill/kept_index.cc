#include "pager/spill/kept_index.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::spill {

void KeptIndex::add_earlier(const ContentHash& hash, const KeptPlace& place) {
  WP_ASSERT(place.file != own_file);
  insert(hash, place.file, number_of(place));
}

bool KeptIndex::add_own(const ContentHash& hash, uint64_t offset_bytes) {
  const uint32_t place = number_of({own_file, offset_bytes});
  if (own_.size() <= place) own_.resize(place + 1);
  WP_ASSERT(own_[place].users == 0 && !own_[place].is_unused);
  own_[place] = {};
  own_[place].hash = hash;
  own_[place].users = 1;
  own_[place].can_be_found = insert(hash, own_file, place);
  count_used();
  return own_[place].can_be_found;
}

std::optional<KeptPlace> KeptIndex::find(const ContentHash& hash) const {
  const Slot& it = slots_[slot_of(hash)];
  if (it.file == nowhere) return std::nullopt;
  return KeptPlace{it.file, it.place * place_bytes_};
}

void KeptIndex::begin_use(const KeptPlace& place) {
  if (place.file != own_file) return;
  Own& own = own_[number_of(place)];
  if (own.is_unused) remove_unused(number_of(place));
  if (own.users++ == 0) count_used();
}

void KeptIndex::count_used() { used_max_ = std::max(used_max_, ++used_); }

bool KeptIndex::end_use(const KeptPlace& place, bool is_worth_keeping) {
  if (place.file != own_file) return false;
  const uint32_t number = number_of(place);
  Own& own = own_[number];
  WP_ASSERT(own.users > 0);
  own.is_worth_keeping = own.is_worth_keeping || is_worth_keeping;
  if (--own.users > 0) return false;
  used_--;
  if (own.is_worth_keeping && own.can_be_found) {
    append_unused(number);
    return false;
  }
  if (std::exchange(own.can_be_found, false)) erase(own.hash);
  return true;
}

void KeptIndex::distrust(const ContentHash& hash, const KeptPlace& place) {
  const auto found = find(hash);
  if (!found || !(*found == place)) return;
  erase(hash);
  if (place.file == own_file) own_[number_of(place)].can_be_found = false;
}

std::optional<uint64_t> KeptIndex::take_unused() {
  if (first_unused_ == nowhere) return std::nullopt;
  const uint32_t place = first_unused_;
  remove_unused(place);
  if (std::exchange(own_[place].can_be_found, false)) erase(own_[place].hash);
  return place * place_bytes_;
}

// ---- The table ----

// Where the hash is, or would be. The hash's bits are as good as random ones.
uint64_t KeptIndex::slot_of(const ContentHash& hash) const {
  uint64_t at = hash.low & (slots_.size() - 1);
  while (slots_[at].file != nowhere && !(slots_[at].hash == hash))
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

bool KeptIndex::insert(const ContentHash& hash, uint32_t file, uint32_t place) {
  if (2 * (contents_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[slot_of(hash)];
  if (slot.file != nowhere) return false;
  slot = {hash, file, place};
  contents_++;
  return true;
}

// What lies behind without a gap may have been meant for the slot: it moves up.
void KeptIndex::erase(const ContentHash& hash) {
  uint64_t gap = slot_of(hash);
  WP_ASSERT(slots_[gap].file != nowhere);
  const uint64_t mask = slots_.size() - 1;
  for (uint64_t at = (gap + 1) & mask; slots_[at].file != nowhere; at = (at + 1) & mask) {
    const uint64_t meant = slots_[at].hash.low & mask;
    if (((at - meant) & mask) < ((at - gap) & mask)) continue;
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = {};
  contents_--;
}

void KeptIndex::grow() {
  std::vector<Slot> smaller(2 * slots_.size());
  smaller.swap(slots_);
  for (const Slot& it : smaller) {
    if (it.file != nowhere) slots_[slot_of(it.hash)] = it;
  }
}

// ---- The list of unused places ----

void KeptIndex::append_unused(uint32_t place) {
  Own& own = own_[place];
  own.is_unused = true;
  own.before = last_unused_;
  own.behind = nowhere;
  (last_unused_ == nowhere ? first_unused_ : own_[last_unused_].behind) = place;
  last_unused_ = place;
  unused_++;
}

void KeptIndex::remove_unused(uint32_t place) {
  Own& own = own_[place];
  own.is_unused = false;
  (own.before == nowhere ? first_unused_ : own_[own.before].behind) = own.behind;
  (own.behind == nowhere ? last_unused_ : own_[own.behind].before) = own.before;
  unused_--;
}

}  // namespace weightpager::spill
