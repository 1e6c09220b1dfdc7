#include "pager/policy/pieces_ahead.h"

#include <algorithm>
#include <iterator>

namespace weightpager::policy {

void PiecesAhead::use_order() {
  begins_ = order_size() == 0 ? std::vector<uint32_t>{} : cut();
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
    place_ = std::max(place_, position(chunk));
    return;
  }
  here_ = piece;
  place_ = position(chunk);
  asked_ = place_ - begins_[piece];
  has_held_ = false;
}

bool PiecesAhead::arrived(ChunkId chunk) {
  const uint32_t at = position(chunk);
  return at == nowhere || begins_[piece_of(at)] != at;
}

// If it stayed since the last pass, it is mapped, and would not tell that the engine comes.
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

// Of the piece where the engine is, what it has passed may go.
bool PiecesAhead::may_go(ChunkId chunk) const {
  const uint32_t at = position(chunk);
  if (here_ == nowhere || at == nowhere) return true;
  const uint32_t piece = piece_of(at);
  return piece == here_ ? at < place_ : piece != next_piece();
}

}  // namespace weightpager::policy
