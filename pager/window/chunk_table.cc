#include "pager/window/chunk_table.h"

namespace weightpager::window {

ChunkId ChunkTable::add_chunks(uint32_t count) {
  const auto first = static_cast<ChunkId>(chunks_.size());
  chunks_.resize(chunks_.size() + count);
  return first;
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
  ++resident_;
  ++reading_;
  return it.slot;
}

SlotId ChunkTable::choose_slot(ChunkId chunk) const {
  const SlotId before = chunk > 0 ? chunks_[chunk - 1].slot : no_slot;
  if (before != no_slot && free_slots_.contains(before + 1)) return before + 1;
  const SlotId behind = chunk + 1 < chunks() ? chunks_[chunk + 1].slot : no_slot;
  if (behind != no_slot && behind > 0 && free_slots_.contains(behind - 1)) return behind - 1;
  return free_slots_.roomiest();
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

void ChunkTable::hold(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::mapped && it.slot != no_slot);
  it.state = ChunkState::ready;
}

void ChunkTable::release(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state == ChunkState::ready || it.state == ChunkState::mapped);
  it.state = ChunkState::absent;
  --resident_;
  give_back_slot(it);
}

void ChunkTable::fail(ChunkId chunk) {
  Chunk& it = chunks_[chunk];
  WP_ASSERT(it.state != ChunkState::mapped && it.state != ChunkState::failed);
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
  chunk.slot = no_slot;
}

}  // namespace weightpager::window
