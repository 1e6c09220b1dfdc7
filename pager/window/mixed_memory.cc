#include "pager/window/mixed_memory.h"

#include <utility>

namespace weightpager::window {

using fault::Outcome;

Result<std::unique_ptr<BackingMemory>> MixedMemory::open(std::unique_ptr<BackingMemory> views,
                                                         const BackingOptions& options,
                                                         const BackingParts& parts) {
  auto moved = MovedMemory::open_empty(options, parts);
  if (!moved) return forward_error(std::move(moved));
  return std::unique_ptr<BackingMemory>(
      new MixedMemory(std::move(views), std::move(*moved), options, parts));
}

MixedMemory::MixedMemory(std::unique_ptr<BackingMemory> views, std::unique_ptr<MovedMemory> moved,
                         const BackingOptions& options, const BackingParts& parts)
    : BackingMemory(options, parts), views_(std::move(views)), moved_(std::move(moved)) {
  slots_max_ = moved_->slots_max();
  memory_.resize(slots_max_, OwnMemory::none);
}

// ---- Which kind ----

BackingMemory& MixedMemory::kind_of(const ShownFile& file) const {
  return file.backing == nullptr ? *moved_ : *views_;
}

BackingMemory& MixedMemory::kind_of(const Region& region) const {
  return region.extent().is_spilled ? *moved_ : *views_;
}

Status MixedMemory::check_writable(const std::string& file_name) const {
  return views_->check_writable(file_name);
}

Result<std::unique_ptr<Region>> MixedMemory::reserve(const ShownFile& file, const Extent& extent) {
  return kind_of(file).reserve(file, extent);
}

void MixedMemory::on_region_added(const ShownFile& file, const Region& region) {
  kind_of(file).on_region_added(file, region);
}

// ---- Get ----

bool MixedMemory::prepare_slot(const ShownFile& file, ChunkId chunk, bool is_memory_new) {
  const SlotId slot = table_.slot(chunk);
  const bool has_memory = memory_[slot] != OwnMemory::none;
  if (file.backing != nullptr) {
    if (has_memory) empty_slot(slot);
    return views_->prepare_slot(file, chunk, is_memory_new);
  }
  if (has_memory) return false;
  views_->empty_slot(slot);
  ++slots_with_memory_;
  memory_[slot] = OwnMemory::coming;
  // A smaller slot is always registered, so that only the pager's thread can give it memory.
  if (is_memory_new && chunk_bytes_ == huge_page_bytes) return true;
  get_memory(file, chunk);
  return false;
}

void MixedMemory::get_memory(const ShownFile&, ChunkId chunk) {
  const SlotId slot = table_.slot(chunk);
  if (memory_[slot] != OwnMemory::coming) return;
  moved_->fill_slot(slot);
  memory_[slot] = OwnMemory::there;
}

// The chunk goes, and nobody knows how much of its memory has come.
void MixedMemory::drop_coming_memory(ChunkId chunk) {
  const SlotId slot = table_.slot(chunk);
  if (slot == no_slot || memory_[slot] != OwnMemory::coming) return;
  moved_->drop_memory(slot);
  memory_[slot] = OwnMemory::none;
  --slots_with_memory_;
}

void MixedMemory::empty_slot(SlotId slot) {
  if (memory_[slot] == OwnMemory::none) return views_->empty_slot(slot);
  moved_->empty_slot(slot);
  memory_[slot] = OwnMemory::none;
  --slots_with_memory_;
}

std::byte* MixedMemory::bytes_of(const ShownFile& file, ChunkId chunk) const {
  return kind_of(file).bytes_of(file, chunk);
}

void MixedMemory::finish_read(const ShownFile& file, ChunkId chunk) {
  const SlotId slot = table_.slot(chunk);
  if (memory_[slot] == OwnMemory::coming) {
    moved_->take_filled_slot(slot);
    memory_[slot] = OwnMemory::there;
  }
  kind_of(file).finish_read(file, chunk);
}

// ---- Show ----

Outcome MixedMemory::show(const ShownFile& file, ChunkId chunk, bool is_waited_for, bool is_retry) {
  return kind_of(file).show(file, chunk, is_waited_for, is_retry);
}

bool MixedMemory::show_together(const ShownFile& file, const Run& run) {
  return kind_of(file).show_together(file, run);
}

bool MixedMemory::answer_shown(Region& region, uint32_t index, uintptr_t address) {
  return kind_of(region).answer_shown(region, index, address);
}

// ---- Hide and evict ----

bool MixedMemory::hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) {
  return kind_of(file).hide(file, chunk, is_used_whole);
}

void MixedMemory::flush_hidden() {
  views_->flush_hidden();
  moved_->flush_hidden();
}

void MixedMemory::leave_region(const ShownFile& file, Region& region, uint32_t index) {
  kind_of(file).leave_region(file, region, index);
}

// MovedMemory::evict exchanges slots with other chunks, which may be the views'. So spilled chunks
// leave one by one, with their own slots.
uint32_t MixedMemory::evict(const ShownFile& file, const Run& run) {
  if (file.backing != nullptr) return views_->evict(file, run);
  return moved_->SlotMemory::evict(file, {run.first, 1});
}

void MixedMemory::give_back(const ShownFile& file, ChunkId chunk) {
  drop_coming_memory(chunk);
  kind_of(file).give_back(file, chunk);
}

// ---- Fail and seal, and what the engine wrote ----

void MixedMemory::fail_chunk(const ShownFile& file, ChunkId chunk) {
  drop_coming_memory(chunk);
  kind_of(file).fail_chunk(file, chunk);
}

void MixedMemory::seal(const Region& region, std::byte* address, uint64_t length_bytes) {
  kind_of(region).seal(region, address, length_bytes);
}

bool MixedMemory::discard_written(Region& region, uint32_t index, uint32_t first_page,
                                  uint32_t count) {
  return kind_of(region).discard_written(region, index, first_page, count);
}

void MixedMemory::for_each_written_run(const Region& region, uint32_t index, const Act& act) {
  kind_of(region).for_each_written_run(region, index, act);
}

// ---- For the loop's thread ----

uint64_t MixedMemory::engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const {
  const uint64_t with_slots_bytes = views_->engine_bytes(all, window_chunks);
  const uint64_t slots_bytes = slots_with_memory_ * chunk_bytes_;
  return with_slots_bytes > slots_bytes ? with_slots_bytes - slots_bytes : 0;
}

}  // namespace weightpager::window
