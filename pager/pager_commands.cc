// What engine threads ask the pager for: regions, advice, questions.
//
// A command lies on the stack of the thread that waits for it; the threads push theirs on a stack
// without a lock and ring, and the pager's thread carries them out one by one between faults. This
// part may allocate: it runs when an engine maps, unmaps or advises, not when it computes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/pager.h"
#include "pager/policy/layer_order.h"

namespace weightpager {

using fault::Outcome;
using policy::ChunkId;
using telemetry::add;
using telemetry::raise_to;
using telemetry::set;
using window::ChunkState;
using window::Region;

// Lies on the stack of the engine thread that waits for it.
struct Pager::Command {
  enum class Kind { add_region, remove, advise, residency, written, resize, file_link, stop } kind;
  const RegionRequest* request = nullptr;
  std::byte* address = nullptr;
  uint64_t length_bytes = 0;
  Advice advice = Advice::will_need;
  unsigned char* pages = nullptr;
  Result<std::byte*> result = nullptr;
  std::vector<Span> spans;
  std::string text;
  Command* next = nullptr;
  std::atomic<bool> is_done{false};
};

// ---- Engine side ----

Pager::~Pager() {
  if (thread_.joinable()) {
    Command command{.kind = Command::Kind::stop};
    execute(command);
    thread_.join();
  }
}

Result<std::byte*> Pager::add_region(const RegionRequest& request) {
  Command command{.kind = Command::Kind::add_region, .request = &request};
  execute(command);
  return std::move(command.result);
}

void Pager::remove(std::byte* address, uint64_t length_bytes) {
  Command command{.kind = Command::Kind::remove, .address = address, .length_bytes = length_bytes};
  execute(command);
}

void Pager::advise(std::byte* address, uint64_t length_bytes, Advice advice) {
  Command command{.kind = Command::Kind::advise,
                  .address = address,
                  .length_bytes = length_bytes,
                  .advice = advice};
  execute(command);
}

void Pager::residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) {
  Command command{.kind = Command::Kind::residency,
                  .address = address,
                  .length_bytes = length_bytes,
                  .pages = pages};
  execute(command);
}

uint64_t Pager::resize(uint64_t window_bytes) {
  Command command{.kind = Command::Kind::resize, .length_bytes = window_bytes};
  execute(command);
  return command.length_bytes;
}

std::string Pager::file_link(std::byte* address) {
  Command command{.kind = Command::Kind::file_link, .address = address};
  execute(command);
  return std::move(command.text);
}

std::vector<Span> Pager::written_spans() {
  Command command{.kind = Command::Kind::written};
  execute(command);
  return std::move(command.spans);
}

void Pager::execute(Command& command) {
  command.next = commands_.load(std::memory_order_relaxed);
  while (!commands_.compare_exchange_weak(command.next, &command, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
  doorbell_.ring();
  command.is_done.wait(false, std::memory_order_acquire);
}

// ---- The pager's thread ----

void Pager::take_commands() {
  if (!is_rung_) return;
  is_rung_ = false;
  Command* newest = commands_.exchange(nullptr, std::memory_order_acquire);
  // The stack has the newest on top; serve in the order of arrival.
  Command* oldest = nullptr;
  while (newest != nullptr) {
    Command* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Command* command = oldest;
    oldest = command->next;
    switch (command->kind) {
      case Command::Kind::add_region:
        command->result = do_add_region(*command->request);
        break;
      case Command::Kind::remove:
        do_remove(command->address, command->length_bytes);
        break;
      case Command::Kind::advise:
        do_advise(*command);
        break;
      case Command::Kind::residency:
        do_residency(*command);
        break;
      case Command::Kind::written:
        command->spans = find_written_spans();
        break;
      case Command::Kind::resize:
        command->length_bytes = do_resize(command->length_bytes);
        break;
      case Command::Kind::file_link:
        command->text = find_file_link(command->address);
        break;
      case Command::Kind::stop:
        WP_ASSERT(regions_.empty());
        is_stopping_ = true;
        break;
    }
    // The command's memory is its owner's again as soon as the flag is set; waking needs no more
    // than its address.
    command->is_done.store(true, std::memory_order_release);
    command->is_done.notify_one();
  }
}

Result<std::byte*> Pager::do_add_region(const RegionRequest& request) {
  if (request.is_writable && !uffd_->has_write_protection()) {
    return fail(request.name + ": mapped writable, and this kernel cannot tell what is written",
                "Linux 5.7 and later can, on x86-64");
  }
  auto served = serve_file(request);
  if (!served) return forward_error(std::move(served));
  auto region = Region::reserve({.offset_bytes = request.offset_bytes,
                                 .length_bytes = request.length_bytes,
                                 .file_size_bytes = (*served)->file.size_bytes(),
                                 .is_writable = request.is_writable});
  if (!region) return forward_error(std::move(region));
  std::byte* const address = (*region)->address();
  if ((*region)->live_bytes() > 0) {
    auto done = uffd_->register_range(address, (*region)->live_bytes(), true);
    if (!done) return forward_error(std::move(done));
  }
  const Place place{region->get(), *served};
  // What failed in another region is tried once more for this one.
  for (uint32_t i = 0; i < place.region->chunks(); ++i) {
    const ChunkId chunk = (*served)->chunk_of(*place.region, i);
    if (table_.state(chunk) == ChunkState::failed) table_.forget_failure(chunk);
  }
  (*served)->regions.push_back(std::move(*region));
  (*served)->favoured = place.region;
  const auto behind = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const Place& it) { return it.region->address() > address; });
  regions_.insert(behind, place);

  if (telemetry_.started_ns.load() == 0) {
    set(telemetry_.started_ns, now_ns_);
    set(telemetry_.engine_bytes_start, engine_bytes());
  }
  fit_table_to_window();
  tell_order();
  return address;
}

// A file that is mapped once more, under whatever name, keeps its chunks.
Result<ServedFile*> Pager::serve_file(const RegionRequest& request) {
  auto file = io::ModelFile::open(request.path);
  if (!file) return forward_error(std::move(file));
  for (const auto& served : files_) {
    if (served->file.is_same_as(*file)) return served.get();
  }
  if (!file->is_direct()) {
    notice(request.name +
           ": no direct reads on this filesystem; weights go through the page cache "
           "and are dropped from it again, which costs CPU time");
  }
  const uint64_t size_bytes = file->size_bytes();
  auto served = std::make_unique<ServedFile>(
      ServedFile{.file = std::move(*file), .name = request.name, .model = {}, .regions = {}});
  if (request.model != nullptr) served->model = *request.model;
  served->chunks = static_cast<uint32_t>(round_up(size_bytes, chunk_bytes) / chunk_bytes);
  served->first_chunk = take_chunk_ids(served->chunks);
  for (uint32_t i = 0; i < served->chunks; ++i) owners_[served->first_chunk + i] = served.get();
  add(telemetry_.models, 1);
  files_.push_back(std::move(served));
  return files_.back().get();
}

// Ids of a file that is gone are used again, if there are as many as needed in a row.
ChunkId Pager::take_chunk_ids(uint32_t count) {
  uint32_t free_in_a_row = 0;
  for (ChunkId chunk = 0; count > 0 && chunk < owners_.size(); ++chunk) {
    const bool is_free = owners_[chunk] == nullptr && !table_.is_resident(chunk);
    free_in_a_row = is_free ? free_in_a_row + 1 : 0;
    if (free_in_a_row < count) continue;
    const ChunkId first = chunk + 1 - count;
    for (ChunkId c = first; c <= chunk; ++c) {
      if (table_.state(c) == ChunkState::failed) table_.forget_failure(c);
    }
    return first;
  }
  const ChunkId first = table_.add_chunks(count);
  owners_.resize(table_.chunks(), nullptr);
  waiting_.resize(table_.chunks());
  held_.reserve(table_.chunks());
  return first;
}

void Pager::tell_order() {
  is_order_stale_ = false;
  order_told_ns_ = now_ns_;
  policy::ChunkOrder order;
  for (const auto& served : files_) {
    policy::append_chunk_order(served->model, 0, {served->first_chunk, served->chunks, 0}, order);
  }
  std::vector<bool> is_shown(table_.chunks());
  uint64_t shown_chunks = 0;
  for (const Place& place : regions_) {
    for (uint32_t i = 0; i < place.region->chunks(); ++i) {
      if (!place.region->is_live(i)) continue;
      const ChunkId chunk = place.served->chunk_of(*place.region, i);
      shown_chunks += is_shown[chunk] ? 0 : 1;
      is_shown[chunk] = true;
    }
  }
  const auto is_gone = [&](ChunkId chunk) { return !is_shown[chunk]; };
  policy::erase_chunks(order, is_gone);
  policy_->set_order(order);
  // What was touched and not served yet must not be forgotten with the old order.
  for (ChunkId chunk = 0; chunk < waiting_.size(); ++chunk) {
    if (waiting_[chunk].is_waited_for) policy_->on_touch(chunk);
  }
  // At the end an engine unmaps everything; the report shall say how it was before.
  if (regions_.empty()) return;
  raise_to(telemetry_.model_bytes, shown_chunks * chunk_bytes);
  set(telemetry_.ring_bytes, uint64_t{policy_->ring_chunks()} * chunk_bytes);
  set(telemetry_.pinned_bytes, uint64_t{policy_->pinned_chunks()} * chunk_bytes);
}

void Pager::do_remove(std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + round_up(length_bytes, os_page_bytes);
  bool is_changed = false;
  for (const Place& place : regions_) {
    const auto first = reinterpret_cast<uintptr_t>(place.region->address());
    const uintptr_t from = std::max(begin, first);
    const uintptr_t to = std::min(end, first + place.region->length_bytes());
    if (from >= to) continue;
    remove_from(place, from, to);
    is_changed = true;
  }
  if (!is_changed) return;
  drop_removed_regions();
  tell_order();
}

void Pager::remove_from(const Place& place, uintptr_t begin, uintptr_t end) {
  const Region& region = *place.region;
  const auto first = reinterpret_cast<uintptr_t>(region.address());
  const uintptr_t live_end = std::min(end, first + region.live_bytes());
  for (uintptr_t at = begin; at < live_end;) {
    const uint32_t index = region.chunk_index(at);
    const auto chunk_begin = reinterpret_cast<uintptr_t>(region.chunk_address(index));
    const uintptr_t piece_end = std::min(live_end, chunk_begin + chunk_bytes);
    remove_pages(place, index, static_cast<uint32_t>((at - chunk_begin) / os_page_bytes),
                 static_cast<uint32_t>((piece_end - at) / os_page_bytes));
    at = piece_end;
  }
  kernel::munmap(reinterpret_cast<void*>(begin), end - begin);
  uffd_->wake(reinterpret_cast<void*>(begin), end - begin);
}

// The pages are about to be unmapped. A chunk that was moved here gives its slot back first; one
// that loses a part becomes an edge.
void Pager::remove_pages(const Place& place, uint32_t index, uint32_t first, uint32_t count) {
  Region& region = *place.region;
  Region::Notes& notes = region.notes(index);
  const bool was_live = region.is_live(index);
  const ChunkId chunk = place.served->chunk_of(region, index);
  if (notes.is_placed && is_moved(region, index)) take_back_slot(region, index, chunk);
  const bool has_more = !region.drop_unmapped_pages(index, first, count);
  if (!was_live || has_more) return;
  notes.is_placed = false;
  notes.is_waited_for = false;
  if (place.served->is_shown(chunk)) return release_if_nowhere(chunk);
  stop_waiting(chunk);
  if (table_.state(chunk) == ChunkState::reading) {
    waiting_[chunk].is_doomed = true;
  } else if (table_.is_resident(chunk)) {
    table_.release(chunk);
  }
}

// mapped → ready, whoever pins the pages.
void Pager::take_back_slot(Region& region, uint32_t index, ChunkId chunk) {
  if (!take_out(chunk)) {
    // Somebody pins the pages: they go with the mapping, and the slot gets other memory.
    std::byte* const address = region.chunk_address(index);
    const Outcome refilled = uffd_->copy(slot_of(chunk), address, chunk_bytes);
    WP_ASSERT(refilled == Outcome::done);
    kernel::madvise(address, chunk_bytes, MADV_DONTNEED);
    region.notes(index).is_placed = false;
  }
  table_.hold(chunk);
}

// A region without a page of the pager's or of the engine's own is forgotten; so is a file without
// a region, as soon as no read needs it.
void Pager::drop_removed_regions() {
  std::erase_if(regions_, [](const Place& place) { return !place.region->is_in_use(); });
  for (const auto& served : files_) {
    std::erase_if(served->regions, [&](const std::unique_ptr<Region>& region) {
      if (region->is_in_use()) return false;
      if (served->favoured == region.get()) served->favoured = nullptr;
      region->abandon();
      return true;
    });
  }
  fit_table_to_window();
  close_idle_files();
}

void Pager::close_idle_files() {
  std::erase_if(files_, [&](const std::unique_ptr<ServedFile>& served) {
    if (!served->regions.empty()) return false;
    const ChunkId end = served->first_chunk + served->chunks;
    for (ChunkId chunk = served->first_chunk; chunk < end; ++chunk) {
      if (table_.state(chunk) == ChunkState::reading) return false;
    }
    for (ChunkId chunk = served->first_chunk; chunk < end; ++chunk) owners_[chunk] = nullptr;
    return true;
  });
}

void Pager::do_advise(const Command& command) {
  std::vector<ChunkId> chunks;
  const auto begin = reinterpret_cast<uintptr_t>(command.address);
  const uintptr_t end = begin + command.length_bytes;
  if (command.advice == Advice::discard) {
    for (const Place& place : regions_) discard_written(place, begin, end);
  }
  for (uintptr_t at = begin; at < end; at = round_down(at, chunk_bytes) + chunk_bytes) {
    const Place place = find(at);
    if (place.region == nullptr) continue;
    chunks.push_back(place.served->chunk_of(*place.region, place.region->chunk_index(at)));
  }
  if (command.advice == Advice::will_need) {
    policy_->will_need(chunks);
  } else {
    policy_->consumed(chunks);
  }
}

// MADV_DONTNEED on a private mapping: the engine's own pages are gone, the file shows again.
void Pager::discard_written(const Place& place, uintptr_t begin, uintptr_t end) {
  Region& region = *place.region;
  const auto first = reinterpret_cast<uintptr_t>(region.address());
  const uintptr_t to = std::min(round_up(end, os_page_bytes), first + region.live_bytes());
  for (uintptr_t at = std::max(begin, first); at < to;) {
    const uint32_t index = region.chunk_index(at);
    const auto chunk_begin = reinterpret_cast<uintptr_t>(region.chunk_address(index));
    const uintptr_t piece_end = std::min(to, chunk_begin + chunk_bytes);
    if (region.notes(index).is_written) {
      // What is there of the chunk goes too, so that its pages are all there or all absent.
      if (region.notes(index).is_placed) {
        window::drop_live_pages(region, index);
        region.notes(index).is_placed = false;
        release_if_nowhere(place.served->chunk_of(region, index));
      }
      region.restore_written(index, static_cast<uint32_t>((at - chunk_begin) / os_page_bytes),
                             static_cast<uint32_t>((piece_end - at) / os_page_bytes),
                             [](std::byte* address, uint64_t length_bytes) {
                               kernel::madvise(address, length_bytes, MADV_DONTNEED);
                             });
      region.notes(index).is_written = region.written_pages(index).any();
      is_order_stale_ = true;
    }
    at = piece_end;
  }
}

uint64_t Pager::do_resize(uint64_t window_bytes) {
  constexpr auto chunks_min = static_cast<uint32_t>(window_bytes_min / chunk_bytes);
  window_chunks_wanted_ = static_cast<uint32_t>(
      std::clamp<uint64_t>(window_bytes / chunk_bytes, chunks_min, window_chunks_max_));
  set_window(window_chunks_wanted_);
  return uint64_t{window_chunks_} * chunk_bytes;
}

// The pager's thread has a descriptor table of its own, which other processes see under its number.
std::string Pager::find_file_link(std::byte* address) {
  for (const Place& place : regions_) {
    if (!place.region->contains(reinterpret_cast<uintptr_t>(address))) continue;
    return "/proc/" + std::to_string(getpid()) + "/task/" + std::to_string(thread_id_) + "/fd/" +
           std::to_string(place.served->file.fd());
  }
  return "";
}

std::vector<Span> Pager::find_written_spans() const {
  std::vector<Span> spans;
  for (const Place& place : regions_) {
    const Region& region = *place.region;
    for (uint32_t i = 0; i < region.chunks(); ++i) {
      if (!region.notes(i).is_written) continue;
      region.for_each_run(i, region.written_pages(i), [&](std::byte* address, uint64_t length) {
        const auto begin = reinterpret_cast<uintptr_t>(address);
        if (!spans.empty() && spans.back().end == begin) {
          spans.back().end += length;
        } else {
          spans.push_back({begin, begin + length});
        }
      });
    }
  }
  return spans;
}

void Pager::do_residency(const Command& command) {
  const auto begin = reinterpret_cast<uintptr_t>(command.address);
  for (uint64_t page = 0; page < command.length_bytes / os_page_bytes; ++page) {
    const uintptr_t at = begin + page * os_page_bytes;
    const Place place = find(at);
    const bool is_mapped =
        place.region != nullptr && place.region->notes(place.region->chunk_index(at)).is_placed;
    command.pages[page] = is_mapped ? 1 : 0;
  }
}

}  // namespace weightpager
