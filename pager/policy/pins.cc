#include "pager/policy/pins.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weightpager::policy {
namespace {

// By position: the share that should be pinned there, from 0 to 1, so that reading the rest needs
// the same share of the engine's computing time everywhere. Where the engine computes for so long
// that all could be streamed, nothing is pinned, and the other positions share the pins that this
// saves.
std::vector<float> pinned_shares(const PassOrder& order, uint32_t count) {
  const uint32_t size = order.size();
  std::vector<float> shares(size, 1);
  if (order.pace().empty()) return shares;
  std::vector<bool> is_streamed(size, false);
  for (;;) {
    double streamed = size - count;
    double time = 0;
    for (uint32_t at = 0; at < size; ++at) {
      is_streamed[at] ? streamed -= 1 : time += order.pace()[at];
    }
    bool is_settled = true;
    for (uint32_t at = 0; at < size; ++at) {
      const double share = is_streamed[at] || time <= 0 ? 1 : streamed * order.pace()[at] / time;
      is_settled = is_settled && (is_streamed[at] || share < 1);
      is_streamed[at] = share >= 1;
      shares[at] = static_cast<float>(1 - std::min(share, 1.0));
    }
    if (is_settled) return shares;
  }
}

// How often a pass reads the chunk if it is streamed: it is gone by the next visit unless that one
// is near, or the chunk is held.
uint32_t reads_of(const PassOrder& order, const HeldVisits& held, ChunkId chunk, uint32_t near) {
  uint32_t reads = 0;
  order.for_each_visit(chunk, [&](uint32_t at) {
    const uint32_t next = order.next_visit(at);
    const uint32_t apart = next > at ? next - at : next + order.size() - at;
    reads += apart > near && !held.contains(at);
  });
  return reads;
}

}  // namespace

void Pins::reset(const ChunkOrder& order, uint32_t chunks) {
  is_pinned_.assign(chunks, false);
  classes_.assign(chunks, other);
  turns_.assign(chunks, no_turn);
  for (ChunkId chunk : order.revisited) classes_[chunk] = revisited;
  for (ChunkId chunk : order.kept) classes_[chunk] = kept;
}

uint32_t Pins::kept_chunks_of(const PassOrder& order) const {
  uint32_t chunks = 0;
  for (ChunkId chunk = 0; chunk < classes_.size(); ++chunk)
    chunks += classes_[chunk] == kept && order.contains(chunk);
  return chunks;
}

void Pins::forget_turns() { std::ranges::fill(turns_, no_turn); }

// Multiples of the golden ratio fill the circle evenly for every count, and a larger set contains
// each smaller one, so that a window that grows or shrinks moves as few pins as possible. A chunk
// keeps its turn when the order changes a little: each pin that moves is a read.
void Pins::take_turns(const PassOrder& order) {
  constexpr double golden_ratio = 0.6180339887498949;
  for (uint32_t position = 0; position < order.size(); ++position) {
    double& turn = turns_[order[position]];
    if (turn == no_turn) turn = position * golden_ratio - std::floor(position * golden_ratio);
  }
}

void Pins::choose(const PassOrder& order, const HeldVisits& held, uint32_t count, uint32_t near) {
  take_turns(order);
  const std::vector<float> shares = pinned_shares(order, count);
  std::vector<double> ranks(order.size());
  for (uint32_t position = 0; position < order.size(); ++position) {
    const ChunkId chunk = order[position];
    const double turn = turns_[chunk];
    const bool is_read_again = classes_[chunk] == other && reads_of(order, held, chunk, near) > 1;
    const Class of_chunk = is_read_again ? revisited : classes_[chunk];
    ranks[position] = of_chunk == kept        ? turn - 2
                      : of_chunk == revisited ? turn - 1
                                              : turn / std::max<double>(shares[position], 1e-6);
  }
  std::vector<uint32_t> positions(order.size());
  std::iota(positions.begin(), positions.end(), 0u);
  std::sort(positions.begin(), positions.end(),
            [&](uint32_t a, uint32_t b) { return ranks[a] < ranks[b]; });
  std::fill(is_pinned_.begin(), is_pinned_.end(), false);
  uint32_t left = count;
  for (size_t i = 0; i < positions.size() && left > 0; ++i) {
    const ChunkId chunk = order[positions[i]];
    left -= is_pinned_[chunk] ? 0 : 1;
    is_pinned_[chunk] = true;
  }
}

}  // namespace weightpager::policy
