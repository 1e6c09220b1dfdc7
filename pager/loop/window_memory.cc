#include "pager/loop/window_memory.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/units.h"

namespace weightpager {

using telemetry::set;

namespace {

// Window and engine may grow at the same time, and a look takes some 20 µs. While nothing happens
// the pager looks less often (look_interval_ns).
constexpr uint64_t limit_interval_ns = 10'000'000;

// Slots between the disk and regions that chunks are copied into: as many as reads may end at once.
constexpr uint64_t staging_bytes_min = 8 * MiB;
constexpr uint64_t staging_bytes_max = 32 * MiB;

}  // namespace

WindowMemory::WindowMemory(const PagerOptions& options, window::ChunkTable& table,
                           const ServedFiles& files, PolicyHost& policy)
    : options_(options),
      telemetry_(*options.telemetry),
      table_(table),
      files_(files),
      policy_(policy),
      chunks_(static_cast<uint32_t>(options.window_bytes / options.chunk_bytes)),
      chunks_there_(chunks_),
      chunks_wanted_(chunks_),
      chunks_max_(std::max(
          chunks_, static_cast<uint32_t>(options.window_bytes_max / options.chunk_bytes))) {}

Status WindowMemory::open(window::AddressSpace& own, fault::Doorbell& doorbell) {
  const bool spills = !options_.spill_folder.empty();
  const auto name = window::choose_mapper(options_.mapper, own, options_.chunk_bytes,
                                          options_.expects_writable, spills);
  if (!name) return tl::make_unexpected(name.error());
  auto backing = window::open_backing_memory(*name,
                                             {.slots = chunks_,
                                              .slots_max = chunks_max_,
                                              .chunk_bytes = options_.chunk_bytes,
                                              .hides_writable = options_.touch_record != nullptr,
                                              .spills = spills,
                                              .before_memory = options_.before_memory},
                                             {own, table_, doorbell});
  if (!backing) return forward_error(std::move(backing));
  backing_ = std::move(*backing);
  chunks_max_ = backing_->slots_max();
  if (options_.mapper == "auto" && *name == "copy") {
    notice("this kernel has no UFFDIO_MOVE (Linux 6.8): chunks are copied, at about 0.6 ms each");
  }
  fit_table();
  return {};
}

void WindowMemory::take_new_slots() {
  grow_to(backing_->supply_slots(chunks_, !files_.regions().empty()));
}

void WindowMemory::ask_for_slots() {
  if (table_.free_slots() == 0) grow_to(backing_->ask_for_slots(chunks_));
}

// A window is made larger as its memory comes. Until then the policy gets along with the window
// that is there, as it did before: nobody waits for memory that may take seconds.
void WindowMemory::grow_to(uint32_t chunks) {
  chunks = std::min(chunks, chunks_);
  if (chunks <= chunks_there_) return;
  chunks_there_ = chunks;
  fit_table();
  policy_.account_parts();
}

bool WindowMemory::note_chunks_in_use() {
  if (table_.resident() <= chunks_used_max_) return false;
  chunks_used_max_ = table_.resident();
  return true;
}

uint32_t WindowMemory::resize(uint32_t chunks) {
  const auto chunks_min = static_cast<uint32_t>(window_bytes_min / options_.chunk_bytes);
  chunks_wanted_ = std::clamp(chunks, chunks_min, chunks_max_);
  set_chunks(chunks_wanted_);
  return chunks_;
}

void WindowMemory::set_chunks(uint32_t chunks) {
  chunks_ = chunks;
  chunks_there_ = std::min(chunks_there_, chunks);
  chunks_used_max_ = std::min(chunks_used_max_, chunks);
  set(telemetry_.window_bytes, uint64_t{chunks} * options_.chunk_bytes);
  fit_table();
  policy_.account_parts();
  trim_slots();
}

void WindowMemory::follow_limit(uint64_t now_ns) {
  if (!headroom_ || now_ns - looked_ns_ < limit_interval_ns) return;
  looked_ns_ = now_ns;
  const auto left_bytes = headroom_->bytes();
  if (!left_bytes) return;
  const uint32_t chunks =
      window::window_chunks_that_fit(chunks_, chunks_wanted_, *left_bytes, options_.chunk_bytes);
  if (chunks == chunks_) return;
  if (chunks < chunks_ && !has_told_of_limit_) {
    has_told_of_limit_ = true;
    notice(
        "the memory limit is near (" + headroom_->source() + "): the window shrinks from " +
        format_size(uint64_t{chunks_} * options_.chunk_bytes) + " to " +
        format_size(uint64_t{chunks} * options_.chunk_bytes) +
        ", and grows again when there is room. To mend it: a smaller --window or a higher limit");
  }
  set_chunks(chunks);
}

void WindowMemory::fit_table() {
  const auto staging_slots_min = static_cast<uint32_t>(staging_bytes_min / options_.chunk_bytes);
  const auto staging_slots_max = static_cast<uint32_t>(staging_bytes_max / options_.chunk_bytes);
  const uint32_t staging_slots =
      backing_->needs_staging(files_.is_any_writable())
          ? std::clamp(chunks_there_ / 16, staging_slots_min, staging_slots_max)
          : 0;
  if (table_.resident_max() == chunks_there_ - staging_slots) return;
  table_.set_resident_max(chunks_there_ - staging_slots);
  policy_.on_window_resized();
}

}  // namespace weightpager
