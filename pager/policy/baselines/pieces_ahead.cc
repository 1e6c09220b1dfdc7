#include "pager/policy/baselines/pieces_ahead.h"

#include <algorithm>
#include <iterator>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

// A file without layers is read ahead in pieces of this size.
constexpr uint64_t piece_bytes = 64 * MiB;

}  // namespace

std::vector<uint32_t> cut_by_layers(const ChunkOrder& order, const CutLimits& limits) {
  const auto size = static_cast<uint32_t>(order.cyclic.size());
  const auto piece_chunks = static_cast<uint32_t>(piece_bytes / limits.chunk_bytes);
  const uint32_t length_wanted = order.layer_begins.empty() ? piece_chunks : size;
  const uint32_t length_max = std::max(1u, std::min(limits.window_chunks / 3, length_wanted));
  std::vector<uint32_t> ends(order.layer_begins);
  ends.push_back(size);
  std::vector<uint32_t> begins;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    for (; begin < end; begin += std::min(length_max, end - begin)) begins.push_back(begin);
  }
  return begins;
}

std::vector<uint32_t> cut_by_half_windows(const ChunkOrder& order, const CutLimits& limits) {
  const uint32_t window = limits.window_chunks;
  const uint32_t half = std::max(window > 2 ? (window - 2) / 2 : 1u, 1u);
  std::vector<uint32_t> begins;
  for (uint32_t begin = 0; begin < order.cyclic.size(); begin += half) begins.push_back(begin);
  return begins;
}

void PiecesAhead::use_order() {
  const CutLimits limits{table_.resident_max(), settings_.chunk_bytes};
  begins_ = order_size() == 0 ? std::vector<uint32_t>{} : cut_(order(), limits);
  here_ = nowhere;
  has_held_ = true;
}

uint32_t PiecesAhead::piece_of(uint32_t position) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), position);
  return static_cast<uint32_t>(std::distance(begins_.begin(), behind)) - 1;
}

uint32_t PiecesAhead::length_of(uint32_t piece) const {
  const uint32_t end = piece + 1 < begins_.size() ? begins_[piece + 1] : order_size();
  return end - begins_[piece];
}

void PiecesAhead::touched(ChunkId chunk) {
  PolicyBase::touched(chunk);
  if (position(chunk) == nowhere) return;
  const uint32_t piece = piece_of(position(chunk));
  if (piece == here_) {
    furthest_ = std::max(furthest_, position(chunk));
    return;
  }
  here_ = piece;
  furthest_ = position(chunk);
  asked_ = furthest_ - begins_[piece];
  has_held_ = false;
}

bool PiecesAhead::arrived(ChunkId chunk) {
  const uint32_t at = position(chunk);
  return at == nowhere || begins_[piece_of(at)] != at;
}

// The next piece's first chunk may have stayed mapped since the last pass. Its touch would then not
// tell that the engine has come.
ChunkId PiecesAhead::next_hold() {
  if (here_ == nowhere || has_held_) return window::no_chunk;
  has_held_ = true;
  return first_of_next();
}

ChunkId PiecesAhead::next_ahead() {
  if (here_ == nowhere) return window::no_chunk;
  const uint32_t wanted = std::min(length_of(here_) + length_of(next_piece()), order_size());
  for (; asked_ < wanted; ++asked_) {
    const ChunkId chunk = order().cyclic[(begins_[here_] + asked_) % order_size()];
    if (table_.state(chunk) == ChunkState::absent) return chunk;
  }
  return window::no_chunk;
}

// Of the piece where the engine is, the chunks that it has passed may go.
bool PiecesAhead::may_go(ChunkId chunk) const {
  const uint32_t at = position(chunk);
  if (here_ == nowhere || at == nowhere) return true;
  const uint32_t piece = piece_of(at);
  return piece == here_ ? at < furthest_ : piece != next_piece();
}

}  // namespace weightpager::policy
