#include "pager/policy/learned.h"

#include <algorithm>
#include <cmath>

namespace weightpager::policy {
namespace {

constexpr uint64_t passes_per_lesson = 2;
constexpr uint32_t pace_lessons_max = 2;
// Touches are seen only every few chunks, and threads touch them out of step: what neighbours took
// is told together.
constexpr size_t neighbours = 16;

}  // namespace

void Learned::set_order(const ChunkOrder& order) {
  PinStream::set_order(order);
  const auto is_known = [](float computed_ns) { return computed_ns > 0; };
  const std::vector<float>& computed_ns = order.lesson.computed_ns;
  if (std::any_of(computed_ns.begin(), computed_ns.end(), is_known)) begin_with(order.lesson);
}

// Chunks that it does not know are computed from for as long as their neighbours.
void Learned::begin_with(const Lesson& lesson) {
  constexpr float unknown_ns = -1;
  std::vector<float> known_ns(table().chunks(), unknown_ns);
  for (size_t at = 0; at < lesson.order.size(); ++at) {
    known_ns[lesson.order[at]] = lesson.computed_ns[at];
  }
  float each_ns = lesson.computed_ns.front();
  std::vector<float> pace;
  pace.reserve(order().size());
  for (ChunkId chunk : order()) {
    if (known_ns[chunk] != unknown_ns) each_ns = known_ns[chunk];
    computed_ns_[chunk] = each_ns;
    pace.push_back(each_ns);
  }
  seen_ = passes_per_lesson * order().size();
  // What is seen first takes the place of what was taught, however wrong that is.
  averaged_from_ = seen_ + order().size();
  lessons_ = 1;
  set_pace(std::move(pace));
}

void Learned::order_changed(bool is_shortened) {
  has_place_ = false;
  waited_for_ = window::no_chunk;
  if (is_shortened) return;
  computed_ns_.assign(table().chunks(), 0);
  seen_ = 0;
  averaged_from_ = order().size();
  lessons_ = 0;
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
      float& known_ns = computed_ns_[order()[(place_ + i) % size]];
      known_ns = seen_ < averaged_from_ ? each_ns : (known_ns + each_ns) / 2;
      ++seen_;
    }
  }
  has_place_ = true;
  place_ = position;
  place_computed_ns_ = computed_ns;
  if (lessons_ == pace_lessons_max || seen_ < (lessons_ + 1) * passes_per_lesson * size) return;
  ++lessons_;
  count_lesson();
  set_pace(seen_pace());
}

std::vector<float> Learned::seen_pace() const {
  std::vector<float> smooth(order().size());
  for (size_t begin = 0; begin < smooth.size(); begin += neighbours) {
    const size_t end = std::min(begin + neighbours, smooth.size());
    float sum_ns = 0;
    for (size_t at = begin; at < end; ++at) sum_ns += computed_ns_[order()[at]];
    const float mean_ns = std::round(sum_ns / static_cast<float>(end - begin));
    std::fill(smooth.begin() + static_cast<std::ptrdiff_t>(begin),
              smooth.begin() + static_cast<std::ptrdiff_t>(end), mean_ns);
  }
  return smooth;
}

}  // namespace weightpager::policy
