#include "pager/policy/left_out.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pager/policy/reordered.h"

namespace weightpager::policy {
namespace {

// So many may come back, or a quarter of all, before all do.
constexpr uint32_t back_max = 8;
// After so many waits for chunks that came back, these join.
constexpr uint32_t waits_max = 8;
// After so many waits for one chunk that lost its place, it joins.
constexpr uint8_t waits_of_lost_max = 4;

}  // namespace

void LeftOut::begin(std::vector<ChunkId> all, std::span<const ChunkId> chunks,
                    uint32_t table_chunks) {
  all_ = std::move(all);
  states_.resize(table_chunks, State::joined);
  lost_.assign(table_chunks, {});
  is_of_all_.assign(table_chunks, false);
  for (const ChunkId chunk : chunks) states_[chunk] = State::away;
  std::vector<State> before(table_chunks, State::joined);
  before.swap(states_);
  away_ = back_ = waits_ = 0;
  for (const ChunkId chunk : all_) {
    is_of_all_[chunk] = true;
    states_[chunk] = before[chunk] == State::dropped ? State::joined : before[chunk];
    away_ += before[chunk] == State::away;
    back_ += before[chunk] == State::back;
  }
}

void LeftOut::drop(ChunkId chunk) {
  states_[chunk] = State::dropped;
  lost_[chunk] = {};
  // Of sparse chunks the order has those that passes were found to use.
  if (!is_of_all_[chunk]) all_.push_back(chunk);
  is_of_all_[chunk] = true;
}

LeftOut::Joining LeftOut::note_touch(ChunkId chunk, bool is_absent) {
  switch (states_[chunk]) {
    case State::joined:
      return Joining::none;
    case State::dropped:
      return note_lost(chunk, is_absent);
    case State::back:
      waits_ += is_absent;
      return waits_ < std::min(waits_max, back_) ? Joining::none : Joining::what_came_back;
    case State::away:
      break;
  }
  states_[chunk] = State::back;
  --away_;
  ++back_;
  return back_ <= std::max(back_max, away_ / 3) ? Joining::none : Joining::all;
}

LeftOut::Joining LeftOut::note_lost(ChunkId chunk, bool is_absent) {
  Lost& it = lost_[chunk];
  if (!is_lately(it)) it.waits = 0;
  it.passes = passes_;
  if (!is_absent || ++it.waits < waits_of_lost_max) return Joining::none;
  // Others that were waited for lately are about to follow.
  for (const ChunkId other : all_) {
    const Lost& lost = lost_[other];
    if (states_[other] != State::dropped || !is_lately(lost)) continue;
    if (lost.waits < waits_of_lost_max / 2) continue;
    states_[other] = State::back;
    ++back_;
  }
  return Joining::what_came_back;
}

void LeftOut::bring_back() {
  std::ranges::replace(states_, State::away, State::back);
  away_ = 0;
}

std::vector<ChunkId> LeftOut::join(const PassOrder& order) {
  std::vector<ChunkId> with;
  std::ranges::copy_if(all_, std::back_inserter(with), [&](ChunkId chunk) {
    return order.contains(chunk) || states_[chunk] == State::back;
  });
  std::ranges::copy_if(order.first_visits(), std::back_inserter(with),
                       [&](ChunkId chunk) { return !is_of_all_[chunk]; });
  std::ranges::replace(states_, State::back, State::joined);
  back_ = waits_ = 0;
  return reordered(with, order.chunks());
}

std::vector<ChunkId> LeftOut::those_in(State state) const {
  std::vector<ChunkId> found;
  std::ranges::copy_if(all_, std::back_inserter(found),
                       [&](ChunkId chunk) { return states_[chunk] == state; });
  return found;
}

}  // namespace weightpager::policy
