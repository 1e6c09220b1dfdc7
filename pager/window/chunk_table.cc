#include "pager/window/chunk_table.h"

#include <algorithm>
#include <utility>

namespace weightpager::window {
namespace {

// How far a neighbour may be. More chunks than are shown in one step need not lie side by side.
constexpr uint32_t neighbours_max = 32;

// Of the window, what leaves at once.
constexpr uint32_t leaving_parts = 8;

}  // namespace

ChunkId ChunkTable::add_chunks(uint32_t count) {
  const auto first = static_cast<ChunkId>(chunks_.size());
  chunks_.resize(chunks_.size() + count);
  return first;
}

void ChunkTable::add_slot(SlotId slot) {
  free_slots_.add(slot);
  if (slot >= chunk_in_.size()) chunk_in_.resize(slot + 1, no_chunk);
}

SlotId ChunkTable::remove_slot() {
  const SlotId slot = free_slots_.last();
  free_slots_.take(slot);
  return slot;
}

SlotId ChunkTable::start_read(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::absent && room() > 0);
  it.state = ChunkState::reading;
  it.slot = choose_slot(chunk);
  free_slots_.take(it.slot);
  chunk_in_[it.slot] = chunk;
  ++resident_;
  ++reading_;
  return it.slot;
}

// Neighbours that are absent are expected to be read soon.
SlotId ChunkTable::choose_slot(ChunkId chunk) const {
  const auto absent_from = [&](ChunkId from, int step) {
    uint32_t count = 0;
    for (ChunkId at = from; count < neighbours_max && at < chunks(); at += step, ++count) {
      if (chunks_[at].state != ChunkState::absent) break;
    }
    return count;
  };
  const uint32_t before = absent_from(chunk - 1, -1);
  const uint32_t behind = absent_from(chunk + 1, 1);
  const auto slot_of = [&](ChunkId at) { return at < chunks() ? chunks_[at].slot : no_slot; };
  const SlotId left = slot_of(chunk - before - 1);
  if (left != no_slot && free_slots_.contains(left + before + 1)) return left + before + 1;
  const SlotId right = slot_of(chunk + behind + 1);
  if (right != no_slot && right > behind && free_slots_.contains(right - behind - 1)) {
    return right - behind - 1;
  }
  return free_slots_.fitting(behind + 1);
}

void ChunkTable::finish_read(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::reading);
  it.state = ChunkState::ready;
  --reading_;
}

void ChunkTable::map(ChunkId chunk, bool keeps_slot) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::ready);
  it.state = ChunkState::mapped;
  if (!keeps_slot) give_back_slot(it);
}

uint32_t ChunkTable::bring_together(ChunkId first, uint32_t count) {
  if (free_slots() > 0) {
    // The neighbours get slots behind the longest run of free slots, or before it.
    const SlotId begin = free_slots_.fitting(UINT32_MAX);
    SlotId end = begin;
    while (free_slots_.contains(end)) ++end;
    const bool is_behind = are_exchangeable(end, count);
    if (is_behind || (begin >= count && are_exchangeable(begin - count, count))) {
      const SlotId target = is_behind ? end : begin - count;
      for (uint32_t i = 0; i < count; ++i) exchange_slots(first + i, chunk_in_[target + i]);
    }
  }
  uint32_t together = 1;
  while (together < count && slot(first + together) == slot(first) + together) ++together;
  return together;
}

bool ChunkTable::are_exchangeable(SlotId first, uint32_t count) const {
  if (count > chunk_in_.size() || first > chunk_in_.size() - count) return false;
  for (SlotId slot = first; slot < first + count; ++slot) {
    const ChunkId chunk = chunk_in_[slot];
    if (chunk == no_chunk || state(chunk) != ChunkState::mapped) return false;
  }
  return true;
}

void ChunkTable::exchange_slots(ChunkId a, ChunkId b) {
  std::swap(chunks_[a].slot, chunks_[b].slot);
  chunk_in_[chunks_[a].slot] = a;
  chunk_in_[chunks_[b].slot] = b;
}

void ChunkTable::hide(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::mapped && it.slot != no_slot);
  it.state = ChunkState::ready;
}

void ChunkTable::begin_leaving(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::ready && it.slot != no_slot);
  it.state = ChunkState::leaving;
  ++leaving_;
}

bool ChunkTable::are_many_leaving() const {
  return leaving_ >= std::clamp(resident_max_ / leaving_parts, 1u, leaving_max);
}

void ChunkTable::stay(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::leaving);
  it.state = ChunkState::ready;
  --leaving_;
}

void ChunkTable::release(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  const bool is_leaving = it.state == ChunkState::leaving;
  WP_ASSERT(is_leaving || it.state == ChunkState::ready || it.state == ChunkState::mapped);
  if (is_leaving) --leaving_;
  it.state = ChunkState::absent;
  --resident_;
  give_back_slot(it);
}

void ChunkTable::fail(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state != ChunkState::mapped && it.state != ChunkState::failed &&
            it.state != ChunkState::leaving);
  if (it.state == ChunkState::reading) --reading_;
  if (it.state != ChunkState::absent) --resident_;
  it.state = ChunkState::failed;
  give_back_slot(it);
}

void ChunkTable::forget_failure(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::failed);
  it.state = ChunkState::absent;
}

void ChunkTable::give_back_slot(Chunk& chunk) {
  if (chunk.slot == no_slot) return;
  free_slots_.add(chunk.slot);
  chunk_in_[chunk.slot] = no_chunk;
  chunk.slot = no_slot;
}

}  // namespace weightpager::window
