#include "pager/preload/large_blocks.h"

#include <algorithm>
#include <new>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::preload {
namespace {

uintptr_t number_of_byte(const void* address) { return reinterpret_cast<uintptr_t>(address); }

LargeBlocks::Block block_of(const Segment& segment) {
  return {reinterpret_cast<std::byte*>(segment.begin), segment.asked_bytes, segment.length_bytes,
          segment.used_bytes, segment.note};
}

/// The part of a block that earlier blocks had, if those ended at `used_end`.
size_t used_bytes_of(const Segment& segment, uintptr_t used_end) {
  return used_end <= segment.begin ? 0 : std::min(segment.length_bytes, used_end - segment.begin);
}

/// Whether a request fits a place of this length without leaving much of it over.
bool is_about_as_long(size_t bytes, size_t place_bytes) {
  return bytes <= place_bytes && place_bytes - bytes <= place_bytes / 4;
}

}  // namespace

bool LargeBlocks::add_arena(std::byte* begin, std::byte* end) {
  const uintptr_t first = number_of_byte(begin);
  const uintptr_t last = number_of_byte(end);
  WP_ASSERT(first % chunk_bytes_ == 0 && last % chunk_bytes_ == 0 && first < last);
  const size_t counters_bytes = (last - first) / chunk_bytes_ * sizeof(std::atomic<uint32_t>);
  const MutexLock lock(mutex_);
  const size_t number = arena_count_.load();
  if (number == arenas_max || !segments_.reserve(1)) return false;
  // Fresh pages are zero, and a page that no block needs takes no memory.
  void* const counters = kernel::mmap(nullptr, counters_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (counters == MAP_FAILED) return false;
  arenas_[number] = {first, last, first, static_cast<std::atomic<uint32_t>*>(counters)};
  arena_count_.store(number + 1);

  Segment* const all = segments_.make();
  all->begin = first;
  all->length_bytes = last - first;
  all->arena = number;
  all->is_free = true;
  segments_.insert(all);
  return true;
}

size_t LargeBlocks::arena_bytes_for(size_t bytes, size_t alignment) const {
  const size_t slack = alignment > chunk_bytes_ ? alignment : 0;
  return round_up(bytes, chunk_bytes_) + slack;
}

std::optional<LargeBlocks::Block> LargeBlocks::take(size_t bytes, size_t alignment, uint64_t note) {
  const size_t length_bytes = round_up(bytes, os_page_bytes);
  alignment = std::max<size_t>(alignment, os_page_bytes);
  const MutexLock lock(mutex_);
  if (!segments_.reserve(2)) return std::nullopt;
  uintptr_t begin = place_given_back(length_bytes, alignment);
  if (begin == 0) begin = first_place(length_bytes, alignment);
  if (begin == 0) return std::nullopt;

  Segment* const block = carve(begin, length_bytes);
  Arena& arena = arenas_[block->arena];
  block->asked_bytes = bytes;
  block->used_bytes = used_bytes_of(*block, arena.used_end);
  block->note = note;
  mark_used(arena, block->end());
  count(arena, block->begin, block->end(), 1);
  return block_of(*block);
}

uintptr_t LargeBlocks::place_given_back(size_t length_bytes, size_t alignment) {
  for (size_t age = 0; age < recent_.size(); ++age) {
    Recent& recent = recent_[(recent_next_ - 1 - age) % recent_.size()];
    if (!is_about_as_long(length_bytes, recent.length_bytes)) continue;
    const uintptr_t begin = recent.begin;
    if (begin % alignment != 0) continue;
    const Segment* const part = segments_.at(begin);
    const bool has_room = part != nullptr && part->is_free && part->end() - begin >= length_bytes;
    recent = {};
    if (has_room) return begin;
  }
  return 0;
}

uintptr_t LargeBlocks::first_place(size_t length_bytes, size_t alignment) const {
  const Segment* const first = segments_.first_free(length_bytes);
  if (first == nullptr) return 0;
  const uintptr_t begin = round_up(first->begin, alignment);
  if (begin < first->end() && first->end() - begin >= length_bytes) return begin;
  // A part that is this long has room, wherever it begins.
  const Segment* const longer = segments_.first_free(length_bytes + alignment - os_page_bytes);
  return longer == nullptr ? 0 : round_up(longer->begin, alignment);
}

Segment* LargeBlocks::carve(uintptr_t begin, size_t length_bytes) {
  Segment* const part = segments_.at(begin);
  const uintptr_t part_end = part->end();
  const uintptr_t end = begin + length_bytes;
  Segment* block = part;
  if (part->begin < begin) {
    part->length_bytes = begin - part->begin;
    segments_.note_change(part);
    block = segments_.make();
    block->begin = begin;
    block->arena = part->arena;
  }
  block->length_bytes = length_bytes;
  block->is_free = false;
  if (block == part) {
    segments_.note_change(block);
  } else {
    segments_.insert(block);
  }
  if (end < part_end) {
    Segment* const rest = segments_.make();
    rest->begin = end;
    rest->length_bytes = part_end - end;
    rest->arena = block->arena;
    rest->is_free = true;
    segments_.insert(rest);
  }
  return block;
}

std::optional<LargeBlocks::Block> LargeBlocks::give(const void* begin) {
  if (!is_in_arena(begin)) return std::nullopt;
  const MutexLock lock(mutex_);
  Segment* const segment = block_at(begin);
  if (segment == nullptr) return std::nullopt;
  const Block block = block_of(*segment);
  recent_[recent_next_++ % recent_.size()] = {segment->begin, segment->length_bytes};
  count(arenas_[segment->arena], segment->begin, segment->end(), -1);
  free_part(segment);
  return block;
}

// Joins the part with free neighbours in its arena: a block must not reach from one arena into
// another, which is another region of the pager's.
void LargeBlocks::free_part(Segment* segment) {
  Segment* const behind = segments_.at(segment->end());
  if (behind != nullptr && behind->is_free && behind->arena == segment->arena) {
    segments_.erase(behind);
    segment->length_bytes += behind->length_bytes;
    segments_.recycle(behind);
  }
  segment->is_free = true;
  Segment* const front = segments_.at(segment->begin - 1);
  if (front == nullptr || !front->is_free || front->arena != segment->arena) {
    segments_.note_change(segment);
    return;
  }
  segments_.erase(segment);
  front->length_bytes += segment->length_bytes;
  segments_.note_change(front);
  segments_.recycle(segment);
}

std::optional<LargeBlocks::Block> LargeBlocks::find(const void* begin) const {
  if (!is_in_arena(begin)) return std::nullopt;
  const MutexLock lock(mutex_);
  const Segment* const segment = block_at(begin);
  if (segment == nullptr) return std::nullopt;
  return block_of(*segment);
}

bool LargeBlocks::is_in_one_block(const void* begin, size_t length_bytes) const {
  if (!is_in_arena(begin)) return false;
  const MutexLock lock(mutex_);
  const Segment* const segment = segments_.at(number_of_byte(begin));
  return segment != nullptr && !segment->is_free &&
         length_bytes <= segment->end() - number_of_byte(begin);
}

// Memory of the pager's own is in no arena, so its thread does not wait for the lock, which another
// thread holds while it forks and waits for the pager.
bool LargeBlocks::is_in_arena(const void* address) const {
  const size_t count = arena_count_.load();
  return std::any_of(
      arenas_.begin(), arenas_.begin() + static_cast<ptrdiff_t>(count),
      [at = number_of_byte(address)](const Arena& it) { return it.begin <= at && at < it.end; });
}

bool LargeBlocks::resize_in_place(const void* begin, size_t bytes) {
  if (!is_in_arena(begin)) return false;
  const size_t length_bytes = round_up(bytes, os_page_bytes);
  const MutexLock lock(mutex_);
  Segment* const block = block_at(begin);
  if (block == nullptr || !segments_.reserve(1)) return false;
  if (length_bytes > block->length_bytes && !lengthen(block, length_bytes)) return false;
  if (length_bytes < block->length_bytes) shorten(block, length_bytes);
  block->asked_bytes = bytes;
  return true;
}

void LargeBlocks::shorten(Segment* block, size_t length_bytes) {
  const Arena& arena = arenas_[block->arena];
  // First all that the block had, then what it keeps: a chunk that it keeps is in use meanwhile.
  count(arena, block->begin, block->begin + length_bytes, 1);
  count(arena, block->begin, block->end(), -1);
  Segment* const rest = segments_.make();
  rest->begin = block->begin + length_bytes;
  rest->length_bytes = block->length_bytes - length_bytes;
  rest->arena = block->arena;
  block->length_bytes = length_bytes;
  block->used_bytes = std::min(block->used_bytes, length_bytes);
  segments_.note_change(block);
  segments_.insert(rest);
  free_part(rest);
}

bool LargeBlocks::lengthen(Segment* block, size_t length_bytes) {
  const size_t more_bytes = length_bytes - block->length_bytes;
  Segment* const behind = segments_.at(block->end());
  const bool has_room = behind != nullptr && behind->is_free && behind->arena == block->arena &&
                        behind->length_bytes >= more_bytes;
  if (!has_room) return false;
  Arena& arena = arenas_[block->arena];
  segments_.erase(behind);
  if (behind->length_bytes == more_bytes) {
    segments_.recycle(behind);
  } else {
    behind->begin += more_bytes;
    behind->length_bytes -= more_bytes;
    segments_.insert(behind);
  }
  count(arena, block->begin, block->begin + length_bytes, 1);
  count(arena, block->begin, block->end(), -1);
  block->length_bytes = length_bytes;
  block->used_bytes = used_bytes_of(*block, arena.used_end);
  mark_used(arena, block->end());
  segments_.note_change(block);
  return true;
}

bool LargeBlocks::is_chunk_in_use(const void* chunk) const {
  const auto address = reinterpret_cast<uintptr_t>(chunk);
  const size_t count = arena_count_.load();
  for (size_t i = 0; i < count; ++i) {
    if (address < arenas_[i].begin || address >= arenas_[i].end) continue;
    return is_chunk_in_use(i, (address - arenas_[i].begin) / chunk_bytes_);
  }
  return true;
}

bool LargeBlocks::is_chunk_in_use(size_t arena, size_t chunk) const {
  WP_ASSERT(arena < arena_count_.load());
  return arenas_[arena].blocks_of_chunk[chunk].load() != 0;
}

Segment* LargeBlocks::block_at(const void* begin) const {
  Segment* const segment = segments_.at(number_of_byte(begin));
  const bool is_block =
      segment != nullptr && !segment->is_free && segment->begin == number_of_byte(begin);
  return is_block ? segment : nullptr;
}

void LargeBlocks::count(const Arena& arena, uintptr_t begin, uintptr_t end, int by) {
  const size_t last = (end - 1 - arena.begin) / chunk_bytes_;
  for (size_t chunk = (begin - arena.begin) / chunk_bytes_; chunk <= last; ++chunk)
    arena.blocks_of_chunk[chunk].fetch_add(static_cast<uint32_t>(by));
}

void LargeBlocks::mark_used(Arena& arena, uintptr_t end) {
  arena.used_end = std::max(arena.used_end, end);
}

}  // namespace weightpager::preload
