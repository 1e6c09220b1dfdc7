#include "pager/policy/pace_meter.h"

#include <algorithm>
#include <cmath>

namespace weightpager::policy {
namespace {

constexpr uint64_t passes_per_pace = 2;
constexpr uint32_t paces_max = 2;
// So many neighbours are reported with their common mean.
constexpr size_t neighbours = 16;

bool is_on_its_way(ChunkState state) {
  return state == ChunkState::absent || state == ChunkState::reading;
}

}  // namespace

void PaceMeter::order_edited() {
  has_position_ = false;
  position_ = 0;
  waited_for_ = window::no_chunk;
}

void PaceMeter::order_replaced() {
  order_edited();
  computed_ns_.assign(table_.chunks(), 0);
  passed_ = 0;
  averaged_from_ = order_.size();
  paces_told_ = 0;
}

std::vector<float> PaceMeter::begin_with(const AccessProfile& access_profile) {
  constexpr float unknown_ns = -1;
  std::vector<float> known_ns(table_.chunks(), unknown_ns);
  for (size_t at = 0; at < access_profile.order.size(); ++at) {
    known_ns[access_profile.order[at]] = access_profile.computed_ns[at];
  }
  float each_ns = access_profile.computed_ns.front();
  std::vector<float> pace;
  pace.reserve(order_.size());
  for (ChunkId chunk : order_.chunks()) {
    if (known_ns[chunk] != unknown_ns) each_ns = known_ns[chunk];
    computed_ns_[chunk] = each_ns;
    pace.push_back(each_ns);
  }
  passed_ = passes_per_pace * order_.size();
  // The first measurement replaces what the access profile says, however far apart the two are.
  averaged_from_ = passed_ + order_.size();
  paces_told_ = 1;
  return pace;
}

bool PaceMeter::note_touch(ChunkId chunk, ChunkState state) {
  const bool is_told = order_.contains(chunk) && note_visit(order_.ahead(chunk, position_));
  note_waiting(chunk, state);
  return is_told;
}

bool PaceMeter::note_visit(uint32_t steps) {
  const uint32_t size = order_.size();
  const uint64_t computed_ns = now_ns_ - waited_ns_;
  const bool goes_on = has_position_ && steps <= size / 2;
  if (has_position_ && !goes_on && size - steps <= size / 4) return false;  // a thread that is late
  if (goes_on && steps == 0) return false;
  if (goes_on) spread(steps, computed_ns);
  has_position_ = true;
  position_ = (position_ + steps) % size;
  position_computed_ns_ = computed_ns;
  if (paces_told_ == paces_max || passed_ < (paces_told_ + 1) * passes_per_pace * size)
    return false;
  ++paces_told_;
  return true;
}

// A wait is subtracted when it ends. Another thread may have touched a chunk during the wait;
// `computed_ns` is then less than at that touch.
void PaceMeter::spread(uint32_t steps, uint64_t computed_ns) {
  const auto since_ns = static_cast<int64_t>(computed_ns - position_computed_ns_);
  const float each_ns =
      static_cast<float>(std::max<int64_t>(since_ns, 0)) / static_cast<float>(steps);
  for (uint32_t i = 0; i < steps; ++i) {
    float& known_ns = computed_ns_[order_.chunk_at(position_ + i)];
    known_ns = passed_ < averaged_from_ ? each_ns : (known_ns + each_ns) / 2;
    ++passed_;
  }
}

// A chunk whose read failed is not waited for any more.
void PaceMeter::note_waiting(ChunkId chunk, ChunkState state) {
  const bool waits_already =
      waited_for_ != window::no_chunk && is_on_its_way(table_.state(waited_for_));
  if (!is_on_its_way(state) || waits_already) return;
  waited_for_ = chunk;
  waiting_since_ns_ = now_ns_;
}

void PaceMeter::note_arrival(ChunkId chunk) {
  if (chunk != waited_for_) return;
  waited_ns_ += now_ns_ - waiting_since_ns_;
  waited_for_ = window::no_chunk;
}

std::vector<float> PaceMeter::pace() const {
  std::vector<float> smooth(order_.size());
  for (size_t begin = 0; begin < smooth.size(); begin += neighbours) {
    const size_t end = std::min(begin + neighbours, smooth.size());
    float sum_ns = 0;
    for (size_t at = begin; at < end; ++at) sum_ns += computed_ns_[order_.chunks()[at]];
    const float mean_ns = std::round(sum_ns / static_cast<float>(end - begin));
    std::fill(smooth.begin() + static_cast<std::ptrdiff_t>(begin),
              smooth.begin() + static_cast<std::ptrdiff_t>(end), mean_ns);
  }
  return smooth;
}

}  // namespace weightpager::policy
