#include "pager/policy/baselines/readahead.h"

#include <algorithm>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

constexpr uint64_t length_bytes_first = 4 * MiB;
constexpr uint64_t length_bytes_max = 32 * MiB;

}  // namespace

void Readahead::use_order() {
  newer_half_.reset(table_.chunks());
  next_ = end_ = 0;
  marker_ = window::no_chunk;
  length_ = 0;
  is_known_.assign(table_.chunks(), false);
  for (const ChunkId chunk : order().cyclic) is_known_[chunk] = true;
  for (const ExpertChunks& expert : order().experts) {
    for (const auto& slab : expert.slabs) {
      for (const ChunkPart& part : slab) is_known_[part.chunk] = true;
    }
  }
}

void Readahead::touched(ChunkId chunk) {
  PolicyBase::touched(chunk);
  newer_half_.note_touch(chunk);
  const bool is_miss = table_.state(chunk) == ChunkState::absent;
  if (!is_miss && chunk != marker_) return;
  const uint32_t length_max =
      std::clamp(table_.resident_max() / 4, 1u, chunks_in(length_bytes_max));
  const bool goes_on = chunk == marker_ || (length_ > 0 && chunk == end_);
  const uint32_t wanted = goes_on ? 2 * length_ : chunks_in(length_bytes_first);
  const ChunkId begin = chunk == marker_ ? end_ : chunk + 1;
  read_from(begin, std::clamp(wanted, 1u, length_max));
}

void Readahead::read_from(ChunkId begin, uint32_t chunks) {
  length_ = chunks;
  next_ = std::min(begin, table_.chunks());
  end_ = std::min(begin + chunks, table_.chunks());
  marker_ = next_ahead();
}

ChunkId Readahead::next_ahead() {
  const auto is_to_be_read = [&](ChunkId chunk) {
    return is_known_[chunk] && table_.state(chunk) == ChunkState::absent;
  };
  while (next_ < end_ && !is_to_be_read(next_)) ++next_;
  return next_ < end_ ? next_ : window::no_chunk;
}

}  // namespace weightpager::policy
