#include "pager/loop/spilling.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/owned_fd.h"
#include "pager/base/span.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace weightpager {

using policy::ChunkId;
using spill::ContentHash;
using spill::SpilledChunks;
using telemetry::add;
using telemetry::set;
using window::ChunkState;
using window::Region;
using window::Run;

namespace {

// In a write's name, beside its chunk. The names of reads have a number of chunks there.
constexpr uint64_t write_mark = uint64_t{1} << 63;
// More than are in flight at once.
constexpr uint32_t reads_finished_max = 1024;
constexpr uint64_t room_interval_ns = second_ns;
// More than this part of the window is too much to be written again and again.
constexpr uint64_t rewritten_share = 2;

uint32_t index_of(const ServedFile& served, ChunkId chunk) { return chunk - served.first_chunk; }

// The kernel moves no page that a child may have inherited, even when the child is gone, before
// somebody writes to it. A byte that is exchanged for itself is such a write, and harms nobody who
// writes at the same time. (Pages that a device uses are this process's own already.)
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
void make_own(std::byte* address, uint64_t length_bytes) {
  for (uint64_t at = 0; at < length_bytes; at += os_page_bytes) {
    auto* const byte = reinterpret_cast<uint8_t*>(address + at);
    uint8_t value = __atomic_load_n(byte, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
}

// Calls `act(served, chunk)` for the chunks of spilled memory that lie wholly in the range, until
// it returns false.
template <typename Act>
void for_each_whole_chunk(const LoopParts& parts, const std::byte* address, uint64_t length_bytes,
                          Act act) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const Span range{begin, begin + length_bytes};
  for (const ServedRegion& it : parts.files.regions()) {
    if (!it.served->is_spilled()) continue;
    const Span part = it.region->part_of(range);
    const uint64_t chunk_bytes = it.region->chunk_bytes();
    for (uintptr_t at = round_up(part.begin, chunk_bytes); at + chunk_bytes <= part.end;
         at += chunk_bytes) {
      if (!act(*it.served, it.served->chunk_of(*it.region, it.region->chunk_index(at)))) return;
    }
  }
}

// Calls `act(served, region, index)` for each chunk of spilled memory.
template <typename Act>
void for_each_chunk(const ServedFiles& files, Act act) {
  for (const ServedRegion& it : files.regions()) {
    if (!it.served->is_spilled()) continue;
    for (uint32_t index = 0; index < it.region->chunks(); ++index)
      act(*it.served, *it.region, index);
  }
}

}  // namespace

Spilling::Spilling(const PagerOptions& options, const LoopParts& parts, ChunkMover& chunks,
                   FileReads& reads)
    : options_(options), parts_(parts), chunks_(chunks), reads_(reads) {
  leaving_.reserve(window::ChunkTable::leaving_max);
  reads_finished_.reserve(reads_finished_max);
}

std::span<const io::Completion> Spilling::take_writes(std::span<const io::Completion> finished) {
  if (!parts_.spills.is_open()) return finished;
  reads_finished_.clear();
  for (const io::Completion& it : finished) {
    if ((it.tag & write_mark) != 0) {
      take(it);
    } else {
      reads_finished_.push_back(it);
    }
  }
  set(parts_.telemetry.spill_file_bytes,
      parts_.spills.spill_file().places_in_use() * options_.chunk_bytes);
  if (parts_.spills.kept().is_open())
    set(parts_.telemetry.spill_kept_bytes, parts_.spills.kept().own_bytes());
  return reads_finished_;
}

// ---- Out of the window ----

void Spilling::evict(const Run& run) {
  ServedFile& served = parts_.files.owner(run.first);
  for (ChunkId chunk = run.first; chunk < run.first + run.count; ++chunk) {
    if (parts_.waiters.are_at(chunk) || !evict(served, chunk)) {
      parts_.policy.policy().on_refused(chunk);
    }
  }
}

// Returns false if the chunk stays.
bool Spilling::evict(ServedFile& served, ChunkId chunk) {
  // Of a run of chunks only the first ones find room.
  if (parts_.table.are_many_leaving()) return false;
  if (parts_.table.state(chunk) == ChunkState::mapped && !hide(served, chunk)) return false;
  SpilledChunks& content = *served.spilled;
  const uint32_t index = index_of(served, chunk);
  if (!content.has_block_at(served.offset_of(chunk))) {
    give_place_back(served, index, true);
    content.forget(index);
    drop(served, chunk);
    return true;
  }
  parts_.table.begin_leaving(chunk);
  leaving_.push_back({.chunk = chunk});
  const bool is_at_zeros = content.home(index) == spill::Home::zeros;
  const bool may_be_unfinished =
      is_at_zeros && !content.has_stayed(index) &&
      unfinished_.may_stay(parts_.policy.touches(), parts_.table.resident_max());
  ContentWork work{.chunk = chunk,
                   .is_leaving = true,
                   .bytes = parts_.memory.backing().bytes_of(served, chunk),
                   .length_bytes = options_.chunk_bytes,
                   .looks_for_zeros = is_at_zeros,
                   .may_be_unfinished = may_be_unfinished,
                   .looks_for_zero_page = is_at_zeros && parts_.spills.kept().is_open(),
                   .hashes = true};
  if (!parts_.workers.start(work)) take(work);
  return true;
}

// Of a huge page whose first part the engine wrote while a child had it, and other parts later, the
// kernel moves nothing at all (Linux 6.18): it asks the first part for all. A new huge page helps.
bool Spilling::hide(const ServedFile& served, ChunkId chunk) {
  if (chunks_.hide(chunk, false)) return true;
  if (!has_forked_) return false;
  served.for_each_view(chunk, [](const Region& region, uint32_t index) {
    make_own(region.chunk_address(index), region.chunk_bytes());
  });
  if (chunks_.hide(chunk, false)) return true;
  served.for_each_view(chunk, [](const Region& region, uint32_t index) {
    kernel::madvise(region.chunk_address(index), region.chunk_bytes(), MADV_COLLAPSE);
  });
  return chunks_.hide(chunk, false);
}

void Spilling::take_looked_through(std::span<const ContentWork> done) {
  for (const ContentWork& work : done) {
    if (work.is_leaving) take(work);
  }
}

Spilling::Leaving Spilling::take_out(ChunkId chunk) {
  const auto found = std::find_if(leaving_.begin(), leaving_.end(),
                                  [&](const Leaving& it) { return it.chunk == chunk; });
  WP_ASSERT(found != leaving_.end());
  const Leaving leaving = *found;
  leaving_.erase(found);
  return leaving;
}

void Spilling::take(const ContentWork& looked_through) {
  const ChunkId chunk = looked_through.chunk;
  Leaving leaving = take_out(chunk);
  ServedFile& served = parts_.files.owner(chunk);
  if (leaving.is_superseded || !served.is_shown(chunk)) {
    drop(served, chunk);
    return parts_.files.drop_unused_files();
  }
  if (parts_.waiters.are_at(chunk)) return keep_in_window(chunk);
  if (looked_through.is_unfinished) {
    served.spilled->note_stay(index_of(served, chunk));
    unfinished_.note_stay(parts_.policy.touches());
    return keep_in_window(chunk);
  }
  leaving.hash = looked_through.hash;
  leaving.is_stage = looked_through.has_zero_page;
  const uint32_t index = index_of(served, chunk);
  const bool is_at_home =
      served.spilled->is_at_home(index, leaving.hash, looked_through.is_all_zero);
  // A kept file that somebody has written to is no home any more. (A file that the engine read is
  // one as long as it is what was read, which its reader looks at.)
  const bool is_home_there = served.spilled->home(index) != spill::Home::kept ||
                             parts_.spills.is_home_unchanged(*served.spilled, index);
  if (is_at_home && is_home_there) return drop(served, chunk);
  if (is_forking_) return keep_in_window(chunk);
  if (!start_comparison(served, leaving) && !start_write(served, leaving)) keep_in_window(chunk);
}

bool Spilling::start_comparison(const ServedFile& served, Leaving leaving) {
  const std::byte* const bytes = parts_.memory.backing().bytes_of(served, leaving.chunk);
  const auto place = parts_.spills.kept().compare(leaving.chunk, bytes, leaving.hash);
  if (!place) return false;
  leaving.kept = *place;
  leaving_.push_back(leaving);
  return true;
}

void Spilling::take_compared(std::span<const KeptComparison> done) {
  for (const KeptComparison& compared : done) take(compared);
}

void Spilling::take(const KeptComparison& compared) {
  const ChunkId chunk = compared.chunk;
  const Leaving leaving = take_out(chunk);
  ServedFile& served = parts_.files.owner(chunk);
  KeptChunks& kept = parts_.spills.kept();
  if (leaving.is_superseded || !served.is_shown(chunk)) {
    kept.end_use(leaving.kept, false);
    drop(served, chunk);
    return parts_.files.drop_unused_files();
  }
  if (!compared.is_same || !kept.is_unchanged(leaving.kept.file)) {
    kept.distrust(leaving.hash, leaving.kept, compared.error_number);
    kept.end_use(leaving.kept, false);
    const bool is_wanted = is_forking_ || parts_.waiters.are_at(chunk);
    if (is_wanted || !start_write(served, leaving)) keep_in_window(chunk);
    return;
  }
  const uint32_t index = index_of(served, chunk);
  give_place_back(served, index, false);
  served.spilled->move_to_kept(index, leaving.kept, leaving.hash, false);
  kept.note_home(leaving.kept);
  add(parts_.telemetry.spill_found_bytes, options_.chunk_bytes);
  if (!parts_.waiters.are_at(chunk)) return drop(served, chunk);
  keep_in_window(chunk);
}

// What may be a weight is kept, as long as there is room for it. What is none goes to the spill
// file, or, if the disk is full, to where something was kept that nobody needs.
bool Spilling::take_place(const ServedFile& served, Leaving& leaving) {
  leaving.is_to_be_kept = false;
  if (served.spilled->may_be_weight(index_of(served, leaving.chunk))) {
    if (const auto place = parts_.spills.kept().take_place()) {
      leaving.is_to_be_kept = true;
      leaving.place = *place;
      return true;
    }
  }
  spill::SpillFile& file = parts_.spills.spill_file();
  auto place = has_no_room_ ? std::nullopt : file.take_place();
  if (!place) {
    place = parts_.spills.kept().take_spare_place();
    leaving.is_to_be_kept = place.has_value();
  }
  if (!place) {
    if (!std::exchange(has_no_room_, true)) tell_no_room(file.last_error());
    return false;
  }
  leaving.place = *place;
  return true;
}

// Nothing was written there that anybody needs.
void Spilling::give_taken_place(const Leaving& leaving) {
  if (leaving.is_to_be_kept) return parts_.spills.kept().give_place(leaving.place);
  parts_.spills.spill_file().give_place(leaving.place);
}

bool Spilling::start_write(ServedFile& served, Leaving leaving) {
  if (!take_place(served, leaving)) return false;
  leaving_.push_back(leaving);
  const int fd = leaving.is_to_be_kept ? parts_.spills.kept().fd(spill::KeptIndex::own_file)
                                       : parts_.spills.spill_file().fd();
  reads_.reader().start_write({.tag = write_mark | leaving.chunk,
                               .fd = fd,
                               .offset_bytes = leaving.place,
                               .length_bytes = static_cast<uint32_t>(options_.chunk_bytes),
                               .buffer = parts_.memory.backing().bytes_of(served, leaving.chunk)});
  return true;
}

void Spilling::take(const io::Completion& written) {
  const auto chunk = static_cast<ChunkId>(written.tag);
  const Leaving leaving = take_out(chunk);
  ServedFile& served = parts_.files.owner(chunk);
  const uint32_t index = index_of(served, chunk);
  if (leaving.is_superseded || !served.is_shown(chunk)) {
    give_taken_place(leaving);
    drop(served, chunk);
    return parts_.files.drop_unused_files();
  }
  const bool is_whole = written.length_bytes == options_.chunk_bytes;
  if (written.error_number != 0 || !is_whole) {
    return keep_unwritten(served, leaving, written.error_number == 0 ? EIO : written.error_number);
  }
  give_place_back(served, index, false);
  if (leaving.is_to_be_kept) {
    parts_.spills.kept().add(leaving.place, leaving.hash);
    served.spilled->move_to_kept(index, {spill::KeptIndex::own_file, leaving.place}, leaving.hash,
                                 true);
    if (leaving.is_stage) served.spilled->note_stage(index);
  } else {
    served.spilled->move_to_spill_file(index, leaving.place, leaving.hash);
  }
  add(parts_.telemetry.spill_written_bytes, options_.chunk_bytes);
  tell_too_much_is_written();
  if (!parts_.waiters.are_at(chunk)) return drop(served, chunk);
  keep_in_window(chunk);
}

// leaving → ready, or mapped, if a thread waits for the chunk.
void Spilling::keep_in_window(ChunkId chunk) {
  parts_.table.stay(chunk);
  parts_.policy.policy().on_refused(chunk);
  if (parts_.waiters.are_at(chunk)) chunks_.show(chunk);
}

// The place is never used again: what failed there once may do so again.
void Spilling::keep_unwritten(const ServedFile& served, const Leaving& leaving, int error_number) {
  if (leaving.is_to_be_kept) parts_.spills.kept().give_up_own();
  add(parts_.telemetry.spill_errors, 1);
  tell_failed_write(served, leaving, error_number);
  keep_in_window(leaving.chunk);
}

// Once for either file: a disk that fails does so again and again.
void Spilling::tell_failed_write(const ServedFile& served, const Leaving& leaving,
                                 int error_number) {
  bool& has_told = leaving.is_to_be_kept ? has_told_of_failed_copy_ : has_told_of_failed_write_;
  if (std::exchange(has_told, true)) return;
  char text[1024];
  std::snprintf(
      text, sizeof text,
      "%s: writing bytes %" PRIu64 " to %" PRIu64
      " of %s failed: %s (errno %d); what should have gone there (%s) stays in "
      "memory%s. See `dmesg`; %s takes another folder",
      (leaving.is_to_be_kept ? parts_.spills.kept().folder() : parts_.spills.folder()).c_str(),
      leaving.place, leaving.place + options_.chunk_bytes,
      leaving.is_to_be_kept ? "a file of kept chunks" : "the spill file",
      std::strerror(error_number), error_number, served.name.c_str(),
      leaving.is_to_be_kept ? " until there is room in the spill file"
                            : ", and so does what fails later",
      leaving.is_to_be_kept ? "--keep-copies" : "--spill");
  report_error(text);
}

// ready or leaving → absent. Who touched the chunk meanwhile needs it anew.
void Spilling::drop(ServedFile& served, ChunkId chunk) {
  parts_.memory.backing().release(served, chunk);
  chunks_.account_evicted({chunk, 1});
  parts_.memory.trim_slots();
  parts_.memory.ask_for_slots();
  if (parts_.waiters.are_at(chunk)) parts_.policy.policy().on_touch(chunk, policy::anywhere);
}

// `is_forgotten`: the engine wants the content no more, rather than having written another. What
// has come back is a weight. A stage of one is written by the next run, too.
void Spilling::give_place_back(ServedFile& served, uint32_t index, bool is_forgotten) {
  const SpilledChunks& content = *served.spilled;
  if (const auto place = content.place(index)) parts_.spills.spill_file().give_place(*place);
  if (const auto place = content.kept_place(index))
    parts_.spills.kept().end_use(
        *place, is_forgotten ? content.has_come_back(index) : content.is_stage(index));
}

void Spilling::tell_no_room(int error_number) {
  if (std::exchange(has_told_of_no_room_, true)) return;
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s: no room for more of the engine's memory: %s (errno %d). Nothing is lost: the "
                "engine waits until there is room. Free some (see `df`); or start it with a larger "
                "--window, with another folder for --spill, or with --no-spill",
                parts_.spills.folder().c_str(), std::strerror(error_number), error_number);
  report_error(text);
}

// Memory that is written in every pass, such as activations, costs a pass two transfers where a
// weight costs one, and wears the disk.
void Spilling::tell_too_much_is_written() {
  if (has_told_of_rewriting_) return;
  uint64_t chunks = 0;
  for (const ServedRegion& it : parts_.files.regions()) {
    if (it.served->is_spilled()) chunks += it.served->spilled->rewritten_chunks();
  }
  const uint64_t window_chunks = parts_.table.resident_max();
  if (chunks <= window_chunks / rewritten_share) return;
  has_told_of_rewriting_ = true;
  char text[1024];
  std::snprintf(text, sizeof text,
                "the engine writes again and again to more of its memory than a window of %" PRIu64
                " MiB holds beside all else, to %" PRIu64
                " MiB at least: that goes to %s and comes back each time. A larger --window keeps "
                "more of it in memory",
                window_chunks * options_.chunk_bytes / MiB, chunks * options_.chunk_bytes / MiB,
                parts_.spills.folder().c_str());
  notice(text);
}

void Spilling::look_for_room(uint64_t now_ns) {
  if (!has_no_room_ || now_ns - looked_for_room_ns_ < room_interval_ns) return;
  looked_for_room_ns_ = now_ns;
  has_no_room_ = false;
  parts_.policy.policy().on_standstill();
}

// ---- Commands ----

bool Spilling::forget(std::byte* address, uint64_t length_bytes) {
  bool is_all = true;
  for_each_whole_chunk(parts_, address, length_bytes, [&](ServedFile& served, ChunkId chunk) {
    const bool is_empty = empty(served, chunk);
    if (is_empty) served.spilled->forget(index_of(served, chunk));
    is_all = is_all && is_empty;
    return true;
  });
  return is_all;
}

Result<uint64_t> Spilling::read_lazily(const LazyRead& read) {
  auto number = parts_.spills.add_file(read.link, read.file, read.name);
  if (!number) return forward_error(std::move(number));
  if (auto done = reads_.prepare_bounces(); !done) return forward_error(std::move(done));
  uint64_t done_bytes = 0;
  for_each_whole_chunk(parts_, read.address, read.length_bytes,
                       [&](ServedFile& served, ChunkId chunk) {
                         if (!empty(served, chunk)) return false;
                         served.spilled->move_to_file(index_of(served, chunk), *number,
                                                      read.offset_bytes + done_bytes);
                         done_bytes += options_.chunk_bytes;
                         return true;
                       });
  add(parts_.telemetry.lazy_read_bytes, done_bytes);
  if (done_bytes > 0) parts_.policy.note_order_grows();
  return done_bytes;
}

bool Spilling::depends_on(const SpilledChunks& content, uint32_t index,
                          const io::FileIdentity* file) const {
  if (content.home(index) != spill::Home::file) return false;
  if (file == nullptr) return content.offset_bytes(index) % os_page_bytes != 0;
  return parts_.spills.files()[content.file(index)].file.identity().is_of_file(*file);
}

// Not in memory, or not whole.
bool Spilling::is_elsewhere(ChunkId chunk) const {
  const ChunkState state = parts_.table.state(chunk);
  return state == ChunkState::absent || state == ChunkState::reading;
}

std::vector<std::byte*> Spilling::give_up_file(const io::FileIdentity* file) {
  std::vector<std::byte*> absent;
  for_each_chunk(parts_.files, [&](ServedFile& served, const Region& region, uint32_t index) {
    if (!depends_on(*served.spilled, index, file)) return;
    served.spilled->give_up_file(index);
    if (is_elsewhere(served.chunk_of(region, index))) absent.push_back(region.chunk_address(index));
  });
  return absent;
}

// What is leaving is gone, or back, first: the kernel does not share pages with a child that a
// device reads from, and what is half written is not at home. What is ready is shown, since a slot
// is not inherited.
bool Spilling::begin_fork(std::vector<InheritedPart>& parts) {
  is_forking_ = true;
  chunks_.hold_spilled(true);
  parts.clear();
  if (!leaving_.empty()) return false;
  bool is_all_shown = true;
  for_each_chunk(parts_.files, [&](ServedFile& served, const Region& region, uint32_t index) {
    const ChunkId chunk = served.chunk_of(region, index);
    if (parts_.table.state(chunk) == ChunkState::ready) chunks_.show(chunk);
    is_all_shown = is_all_shown && parts_.table.state(chunk) != ChunkState::ready;
    if (is_elsewhere(chunk)) add_inherited(served, index, region.chunk_address(index), parts);
  });
  if (!is_all_shown) return false;
  // A child that lives on needs these places as they are.
  parts_.spills.spill_file().hold_all();
  if (parts_.spills.kept().is_open()) parts_.spills.kept().hold_all();
  advise_children(MADV_DOFORK);
  has_forked_ = true;
  return true;
}

void Spilling::end_fork() {
  advise_children(MADV_DONTFORK);
  chunks_.hold_spilled(false);
  is_forking_ = false;
}

void Spilling::add_inherited(const ServedFile& served, uint32_t index, std::byte* address,
                             std::vector<InheritedPart>& parts) const {
  const SpilledChunks& content = *served.spilled;
  if (content.home(index) == spill::Home::zeros) return;
  const ReadPlace home = parts_.spills.home_of(content, index);
  const bool is_there = parts_.spills.is_home_unchanged(content, index);
  const bool can_be_mapped = is_there && home.offset_bytes % os_page_bytes == 0;
  InheritedPart part{.address = address,
                     .length_bytes = options_.chunk_bytes,
                     .link = can_be_mapped ? link_of_descriptor(home.fd) : "",
                     .offset_bytes = can_be_mapped ? home.offset_bytes : 0};
  if (!parts.empty()) {
    InheritedPart& last = parts.back();
    const bool is_behind =
        last.address + last.length_bytes == part.address && last.link == part.link &&
        (part.link.empty() || last.offset_bytes + last.length_bytes == part.offset_bytes);
    if (is_behind) {
      last.length_bytes += part.length_bytes;
      return;
    }
  }
  parts.push_back(std::move(part));
}

void Spilling::advise_children(int advice) const {
  for (const ServedRegion& it : parts_.files.regions()) {
    if (!it.served->is_spilled()) continue;
    kernel::madvise(it.region->address(), it.region->length_bytes(), advice);
  }
}

// The chunk loses its content and its place. Returns false if it cannot be taken out now.
bool Spilling::empty(ServedFile& served, ChunkId chunk) {
  switch (parts_.table.state(chunk)) {
    case ChunkState::absent:
    case ChunkState::failed:  // a touch stays SIGBUS
      break;
    case ChunkState::reading:
      reads_.doom(chunk);
      break;
    case ChunkState::leaving:
      for (Leaving& leaving : leaving_) {
        if (leaving.chunk == chunk) leaving.is_superseded = true;
      }
      break;
    case ChunkState::mapped:
      if (!hide(served, chunk)) return false;
      drop(served, chunk);
      break;
    case ChunkState::ready:
      drop(served, chunk);
      break;
  }
  give_place_back(served, index_of(served, chunk), true);
  return true;
}

}  // namespace weightpager
