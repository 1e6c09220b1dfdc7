#include "pager/policy/held_visits.h"

#include <algorithm>

namespace weightpager::policy {
namespace {

// What one place has to save, in reads a pass: a pin saves one.
constexpr uint32_t reads_saved_min = 2;

/// From a visit until the chunk's next one.
struct Interval {
  uint32_t position = 0;
  uint32_t length = 0;
};

// The shortest ones first. A chunk that is held for half of a pass may as well be pinned.
std::vector<Interval> intervals_of(const PassOrder& order, uint32_t near) {
  std::vector<Interval> intervals;
  for (uint32_t position = 0; position < order.size(); ++position) {
    const uint32_t next = order.next_visit(position);
    const uint32_t length = next > position ? next - position : next + order.size() - position;
    if (length > near && length < order.size() / 2) intervals.push_back({position, length});
  }
  std::ranges::stable_sort(intervals, {}, &Interval::length);
  return intervals;
}

/// By position: how many chunks are held there.
class Occupancy {
 public:
  explicit Occupancy(uint32_t size) : held_(size, 0) {}

  bool has_room(const Interval& interval, uint32_t places) const {
    for (uint32_t i = 0; i < interval.length; ++i) {
      if (held_[(interval.position + i) % held_.size()] >= places) return false;
    }
    return true;
  }
  void add(const Interval& interval) {
    for (uint32_t i = 0; i < interval.length; ++i) {
      ++held_[(interval.position + i) % held_.size()];
    }
  }

 private:
  std::vector<uint32_t> held_;
};

}  // namespace

void HeldVisits::choose(const PassOrder& order, uint32_t near, uint32_t places_max) {
  is_held_.assign(order.size(), false);
  std::vector<Interval> left = intervals_of(order, near);
  Occupancy occupancy(order.size());
  for (places_ = 0; places_ < places_max; ++places_) {
    Occupancy with_one_more = occupancy;
    std::vector<Interval> taken;
    std::vector<Interval> not_taken;
    for (const Interval& interval : left) {
      const bool fits = with_one_more.has_room(interval, places_ + 1);
      if (fits) with_one_more.add(interval);
      (fits ? taken : not_taken).push_back(interval);
    }
    if (taken.size() < reads_saved_min) return;
    for (const Interval& interval : taken) is_held_[interval.position] = true;
    occupancy = std::move(with_one_more);
    left = std::move(not_taken);
  }
}

}  // namespace weightpager::policy
