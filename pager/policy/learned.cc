#include "pager/policy/learned.h"

#include <algorithm>

namespace weightpager::policy {
namespace {

constexpr uint64_t passes_per_lesson = 2;
constexpr uint32_t pace_lessons_max = 2;
// Touches are seen only every few chunks, and threads touch them out of step: what neighbours took
// is told together.
constexpr size_t neighbours = 16;

}  // namespace

void Learned::order_changed() {
  computed_ns_.assign(order().size(), 0);
  seen_ = 0;
  lessons_ = 0;
  has_place_ = false;
  waited_for_ = window::no_chunk;
}

void Learned::on_touch(ChunkId chunk, uint32_t offset_bytes) {
  const ChunkState state = table().state(chunk);
  PinStream::on_touch(chunk, offset_bytes);
  if (position(chunk) != nowhere) note_place(position(chunk));
  const auto is_on_its_way = [](ChunkState it) {
    return it == ChunkState::absent || it == ChunkState::reading;
  };
  // One whose read failed is not waited for any more.
  const bool waits_already =
      waited_for_ != window::no_chunk && is_on_its_way(table().state(waited_for_));
  if (!is_on_its_way(state) || waits_already) return;
  waited_for_ = chunk;
  waiting_since_ns_ = now_ns_;
}

bool Learned::on_ready(ChunkId chunk) {
  if (chunk == waited_for_) {
    waited_ns_ += now_ns_ - waiting_since_ns_;
    waited_for_ = window::no_chunk;
  }
  return PinStream::on_ready(chunk);
}

// The time since the last touch that was seen, less waiting, is spread over what lies between.
void Learned::note_place(uint32_t position) {
  const auto size = static_cast<uint32_t>(order().size());
  const uint64_t computed_ns = now_ns_ - waited_ns_;
  const uint32_t steps = position >= place_ ? position - place_ : position + size - place_;
  const bool goes_on = has_place_ && steps <= size / 2;
  if (has_place_ && !goes_on && size - steps <= size / 4) return;  // a thread that is late
  if (goes_on && steps == 0) return;
  if (goes_on) {
    // A wait is taken off when it is over; another thread may have been here meanwhile.
    const auto since_ns = static_cast<int64_t>(computed_ns - place_computed_ns_);
    const float each_ns =
        static_cast<float>(std::max<int64_t>(since_ns, 0)) / static_cast<float>(steps);
    for (uint32_t i = 0; i < steps; ++i) {
      float& known_ns = computed_ns_[(place_ + i) % size];
      known_ns = seen_ < size ? each_ns : (known_ns + each_ns) / 2;
      ++seen_;
    }
  }
  has_place_ = true;
  place_ = position;
  place_computed_ns_ = computed_ns;
  if (lessons_ == pace_lessons_max || seen_ < (lessons_ + 1) * passes_per_lesson * size) return;
  ++lessons_;
  set_pace(pace());
}

std::vector<float> Learned::pace() const {
  std::vector<float> smooth(computed_ns_.size());
  for (size_t begin = 0; begin < smooth.size(); begin += neighbours) {
    const size_t end = std::min(begin + neighbours, smooth.size());
    float sum_ns = 0;
    for (size_t at = begin; at < end; ++at) sum_ns += computed_ns_[at];
    const float mean_ns = sum_ns / static_cast<float>(end - begin);
    std::fill(smooth.begin() + static_cast<std::ptrdiff_t>(begin),
              smooth.begin() + static_cast<std::ptrdiff_t>(end), mean_ns);
  }
  return smooth;
}

}  // namespace weightpager::policy
