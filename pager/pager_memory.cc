// The memory of the window: slots, as many as the window has chunks, made while it fills.
//
// Memory that is not there yet costs more than a chunk's read, so slots are made ahead by threads
// of their own (window/slot_pool.h), and nobody waits for more than the next few. The window itself
// becomes smaller where the process's memory limit is near, and larger again.
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/pager.h"

namespace weightpager {

using fault::Outcome;
using telemetry::set;

namespace {

// Memory kept ready beyond what is in use, while the window fills; and how much of it is made anew
// between two looks at faults, where it was given back before.
constexpr uint64_t bytes_ahead = 64 * MiB;
constexpr uint64_t refill_bytes = 2 * MiB;
constexpr std::chrono::milliseconds memory_pause{1};
// Slots between the disk and regions that chunks are copied into: as many as reads may end at once.
constexpr uint64_t staging_bytes_min = 8 * MiB;
constexpr uint64_t staging_bytes_max = 32 * MiB;
// What slots are filled with whose memory only has to be there. Nobody writes to it, so it takes
// none.
std::byte no_bytes[chunk_bytes_max];

}  // namespace

void Pager::take_new_slots() {
  if (pool_ == nullptr) return ask_for_slots();
  const uint32_t populated = pool_->populated();
  if (populated > slots_taken_) {
    prepare_slots(slots_taken_, populated - slots_taken_);
    for (; slots_taken_ < populated; ++slots_taken_) table_.add_slot(slots_taken_);
    trim_slots();
  }
  if (!regions_.empty()) ask_for_slots();
}

void Pager::prepare_slots(window::SlotId first, uint32_t count) {
  auto prepared =
      mapper_->prepare_slots(own_->uffd(), pool_->address(first), uint64_t{count} * chunk_bytes_);
  if (prepared) return;
  report_error(prepared.error().message);
  std::abort();
}

// The window's memory is what chunks hold plus free slots. While less than the window is in use,
// a few free slots are kept ready: emptied ones are filled again, others are made by the pool.
// (Shared memory comes as it is read into.)
void Pager::ask_for_slots() {
  uint32_t in_use = table_.resident() + table_.free_slots();
  if (pool_ == nullptr) {
    for (; in_use < window_chunks_; ++in_use) table_.add_slot(take_permit());
    return grow_to(in_use);
  }
  const auto slots_ahead = static_cast<uint32_t>(bytes_ahead / chunk_bytes_);
  if (table_.free_slots() >= slots_ahead || in_use >= window_chunks_) {
    grow_to(in_use);
  } else if (!emptied_slots_.empty()) {
    refill_slots(window_chunks_ - in_use);
  } else {
    pool_->want(
        slots_taken_ + std::min(slots_ahead, window_chunks_ - in_use),
        [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); }, &doorbell_);
  }
  table_.expect_slots(pool_->wanted() > slots_taken_);
}

// A window is made larger as its memory comes. Until then the policy gets along with the window
// that is there, as it did before: nobody waits for memory that may take seconds.
void Pager::grow_to(uint32_t chunks) {
  chunks = std::min(chunks, window_chunks_);
  if (chunks <= window_chunks_there_) return;
  window_chunks_there_ = chunks;
  fit_table_to_window();
  account_parts();
}

void Pager::get_all_memory() {
  pool_->want(
      window_chunks_, [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); }, &doorbell_);
  while (pool_->populated() < window_chunks_) {
    std::this_thread::sleep_for(memory_pause);
    // Who made some rings, and stands still until that was heard.
    take_faults(*own_);
  }
}

// A slot without memory of its own: one that was given back, or one more.
window::SlotId Pager::take_permit() {
  if (emptied_slots_.empty()) return slots_taken_++;
  const window::SlotId slot = emptied_slots_.back();
  emptied_slots_.pop_back();
  return slot;
}

void Pager::refill_slots(uint32_t slots_max) {
  slots_max = std::min(slots_max, static_cast<uint32_t>(refill_bytes / chunk_bytes_));
  for (; slots_max > 0 && !emptied_slots_.empty(); --slots_max) {
    const window::SlotId slot = emptied_slots_.back();
    if (slots_stay_registered()) {
      // Out of memory: there may be some at the next look.
      if (own_->uffd().copy(pool_->address(slot), no_bytes, chunk_bytes_) != Outcome::done) return;
    } else {
      pool_->refill(slot);
      prepare_slots(slot, 1);
    }
    emptied_slots_.pop_back();
    table_.add_slot(slot);
  }
}

// A slot that is registered gets memory by a copy, into small pages. One that is not is a mapping
// of its own for the kernel, and of small ones there may be more than it allows (vm.max_map_count).
bool Pager::slots_stay_registered() const {
  return mapper_->registers_slots() && chunk_bytes_ < huge_page_bytes;
}

// A chunk that was copied into a region leaves its slot behind: memory beyond the window goes back.
void Pager::trim_slots() {
  while (table_.free_slots() > 0 && table_.resident() + table_.free_slots() > window_chunks_) {
    const window::SlotId slot = table_.remove_slot();
    emptied_slots_.push_back(slot);
    if (module_ != nullptr) module_->empty(slot);
    if (pool_ == nullptr) continue;
    if (!slots_stay_registered()) {
      own_->uffd().unregister_range(pool_->address(slot), chunk_bytes_);
    }
    pool_->empty(slot);
  }
}

void Pager::set_window(uint32_t chunks) {
  window_chunks_ = chunks;
  window_chunks_there_ = std::min(window_chunks_there_, chunks);
  set(telemetry_.window_bytes, uint64_t{chunks} * chunk_bytes_);
  fit_table_to_window();
  account_parts();
  trim_slots();
}

void Pager::follow_memory_limit() {
  headroom_seen_ns_ = now_ns_;
  const auto left_bytes = headroom_->bytes();
  if (!left_bytes) return;
  const uint32_t chunks = window::window_chunks_that_fit(window_chunks_, window_chunks_wanted_,
                                                         *left_bytes, chunk_bytes_);
  if (chunks == window_chunks_) return;
  if (chunks < window_chunks_ && !has_told_of_limit_) {
    has_told_of_limit_ = true;
    notice(
        "the memory limit is near (" + headroom_->source() + "): the window shrinks from " +
        format_size(uint64_t{window_chunks_} * chunk_bytes_) + " to " +
        format_size(uint64_t{chunks} * chunk_bytes_) +
        ", and grows again when there is room. To mend it: a smaller --window or a higher limit");
  }
  set_window(chunks);
}

// Where chunks are copied, some of the window must stay free for slots between disk and regions.
void Pager::fit_table_to_window() {
  const bool is_any_writable =
      std::any_of(regions_.begin(), regions_.end(),
                  [](const Place& place) { return place.region->extent().is_writable; });
  const bool copies = !mapper_->keeps_slot() || (is_any_writable && !shares_memory());
  const auto staging_slots_min = static_cast<uint32_t>(staging_bytes_min / chunk_bytes_);
  const auto staging_slots_max = static_cast<uint32_t>(staging_bytes_max / chunk_bytes_);
  const uint32_t staging_slots =
      copies ? std::clamp(window_chunks_there_ / 16, staging_slots_min, staging_slots_max) : 0;
  if (table_.resident_max() == window_chunks_there_ - staging_slots) return;
  table_.set_resident_max(window_chunks_there_ - staging_slots);
  if (policy_) policy_->on_resized();
  if (adaptation_) adaptation_->set_window(table_.resident_max(), progress());
}

}  // namespace weightpager
