// What engine threads ask the pager for: regions, advice, questions.
//
// Each public function has its work done by the pager's thread, between two faults, and waits for
// it (fault/command_stack.h). This part may allocate: it runs when an engine maps, unmaps or
// advises, not when it computes.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/lessons/lesson_shelf.h"
#include "pager/pager.h"
#include "pager/policy/layer_order.h"

namespace weightpager {

using fault::Outcome;
using policy::ChunkId;
using telemetry::add;
using telemetry::raise_to;
using telemetry::set;
using window::AddressSpace;
using window::ChunkState;
using window::Region;

// ---- Engine side ----

Pager::~Pager() {
  if (!thread_.joinable()) return;
  execute([&] {
    WP_ASSERT(regions_.empty());
    is_stopping_ = true;
  });
  thread_.join();
}

Result<std::byte*> Pager::add_region(const RegionRequest& request) {
  Result<std::byte*> address = nullptr;
  execute([&] { address = do_add_region(request); });
  return address;
}

void Pager::remove(std::byte* address, uint64_t length_bytes) {
  execute([&] { do_remove(*own_, address, length_bytes); });
}

void Pager::advise(std::byte* address, uint64_t length_bytes, Advice advice) {
  execute([&] { do_advise(*own_, address, length_bytes, advice); });
}

void Pager::protect(std::byte* address, uint64_t length_bytes, bool is_accessible) {
  execute([&] { do_protect(address, length_bytes, is_accessible); });
}

void Pager::residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) {
  execute([&] { do_residency(address, length_bytes, pages); });
}

std::string Pager::file_link(std::byte* address) {
  std::string link;
  execute([&] { link = find_file_link(address); });
  return link;
}

std::vector<Span> Pager::written_spans() {
  std::vector<Span> spans;
  execute([&] { spans = find_written_spans(); });
  return spans;
}

Result<const ServedFile*> Pager::keep_file(const RegionRequest& request) {
  Result<const ServedFile*> file = nullptr;
  execute([&] { file = do_keep_file(request); });
  return file;
}

std::string Pager::link_if_changed(const ServedFile* served) {
  std::string link;
  execute([&] { link = do_link_if_changed(kept_file(served)); });
  return link;
}

void Pager::forsake_file(const ServedFile* served) {
  execute([&] { do_forsake_file(kept_file(served)); });
}

Result<Pager::Guest*> Pager::add_guest(std::unique_ptr<Guest> guest) {
  Result<Guest*> added = nullptr;
  execute([&] { added = do_add_guest(std::move(guest)); });
  return added;
}

Status Pager::add_guest_region(Guest* guest, const ServedFile* served, const window::Extent& extent,
                               std::byte* address) {
  Status outcome;
  execute([&] { outcome = do_add_guest_region(*guest, served, extent, address); });
  return outcome;
}

void Pager::remove_from_guest(Guest* guest, std::byte* address, uint64_t length_bytes) {
  execute([&] { do_remove(*guest, address, length_bytes); });
}

void Pager::advise_for_guest(Guest* guest, std::byte* address, uint64_t length_bytes,
                             Advice advice) {
  execute([&] { do_advise(*guest, address, length_bytes, advice); });
}

void Pager::remove_guest(Guest* guest) {
  execute([&] { do_remove_guest(guest); });
}

// ---- The pager's thread ----

void Pager::take_commands() {
  if (!is_rung_) return;
  is_rung_ = false;
  commands_.carry_out();
}

Result<std::byte*> Pager::do_add_region(const RegionRequest& request) {
  const bool can_tell_writes =
      shares_memory() ? page_map_->is_open() : own_->uffd().has_write_protection();
  if (request.is_writable && !can_tell_writes) {
    return fail(request.name + ": mapped writable, and it cannot be told here what is written",
                shares_memory() ? "mount /proc" : "Linux 5.7 and later can, on x86-64");
  }
  auto served = serve_file(request);
  if (!served) return forward_error(std::move(served));
  const bool is_view = shares_memory();
  auto region = Region::reserve({.offset_bytes = request.offset_bytes,
                                 .length_bytes = request.length_bytes,
                                 .file_size_bytes = (*served)->file.size_bytes(),
                                 .is_writable = request.is_writable},
                                chunk_bytes_, *own_,
                                is_view ? (*served)->memory->view_fd() : Region::no_memory,
                                module_ != nullptr ? MAP_SHARED : MAP_PRIVATE);
  if (!region) return forward_error(std::move(region));
  std::byte* const address = (*region)->address();
  const uint64_t live_bytes = (*region)->live_bytes();
  if (live_bytes > 0 && module_ == nullptr) {
    auto done = is_view ? own_->uffd().register_view(address, live_bytes)
                        : own_->uffd().register_range(address, live_bytes, true);
    if (!done) return forward_error(std::move(done));
  }
  show_in(**served, std::move(*region));
  return address;
}

Result<const ServedFile*> Pager::do_keep_file(const RegionRequest& request) {
  auto served = serve_file(request);
  if (!served) return forward_error(std::move(served));
  (*served)->is_kept = true;
  tell_order();
  return *served;
}

ServedFile& Pager::kept_file(const ServedFile* served) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const auto& it) { return it.get() == served; });
  WP_ASSERT(found != files_.end() && (*found)->is_kept);
  return **found;
}

std::string Pager::do_link_if_changed(ServedFile& served) {
  const auto now = io::identity_of(served.file.fd());
  if (now && served.is_still(*now)) return "";
  look_at(served);
  tell_change(served);
  return link_of_descriptor(served.file.fd());
}

void Pager::do_forsake_file(ServedFile& served) {
  served.is_kept = false;
  for (ChunkId chunk = served.first_chunk; chunk < served.first_chunk + served.chunks; ++chunk) {
    if (!table_.is_resident(chunk) || served.is_shown(chunk)) continue;
    if (table_.state(chunk) == ChunkState::reading) {
      waiting_[chunk].is_doomed = true;
    } else {
      release(chunk);
    }
  }
  close_idle_files();
  tell_order();
}

Result<Pager::Guest*> Pager::do_add_guest(std::unique_ptr<Guest> guest) {
  if (auto watched = watch_faults(guest->uffd().fd()); !watched)
    return forward_error(std::move(watched));
  guests_.push_back(std::move(guest));
  return guests_.back().get();
}

Status Pager::do_add_guest_region(Guest& guest, const ServedFile* file,
                                  const window::Extent& extent, std::byte* address) {
  ServedFile& served = kept_file(file);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + extent.length_bytes;
  size_t regions = 0;
  bool is_free = true;
  for (const Place& place : regions_) {
    if (&place.region->space() != &guest) continue;
    place.region->for_each_live_run_in(begin, end, [&](std::byte*, uint64_t) { is_free = false; });
    ++regions;
  }
  if (!is_free) return fail("two regions at one address", "", EEXIST);
  if (regions == regions_max) return fail("too many regions", "", ENOMEM);
  show_in(served, Region::of_guest(extent, chunk_bytes_, guest, address));
  return {};
}

void Pager::do_remove_guest(Guest* guest) {
  // Up to the end of its addresses.
  do_remove(*guest, nullptr, UINTPTR_MAX - os_page_bytes);
  WP_ASSERT(std::none_of(regions_.begin(), regions_.end(),
                         [&](const Place& place) { return &place.region->space() == guest; }));
  std::erase_if(guests_, [&](const auto& it) { return it.get() == guest; });
}

// From now on the region's faults are served.
void Pager::show_in(ServedFile& served, std::unique_ptr<Region> region) {
  const Place place{region.get(), &served};
  // What failed in another region is tried once more for this one.
  for (uint32_t i = 0; i < region->chunks(); ++i) {
    const ChunkId chunk = served.chunk_of(*region, i);
    if (table_.state(chunk) == ChunkState::failed) table_.forget_failure(chunk);
    const bool is_absent = module_ != nullptr && !table_.is_resident(chunk);
    if (is_absent) served.memory->give_back_chunk(served.offset_of(chunk));
  }
  served.regions.push_back(std::move(region));
  served.favoured = place.region;
  const auto behind = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const Place& it) { return place.key() < it.key(); });
  regions_.insert(behind, place);

  if (telemetry_.started_ns.load() == 0) {
    set(telemetry_.started_ns, now_ns_);
    set(telemetry_.engine_bytes_start, engine_bytes());
  }
  fit_table_to_window();
  tell_order();
}

// A file that is mapped once more, under whatever name, keeps its chunks, unless it was changed
// since the first of them was read: nothing of what was there before may be seen by who maps it
// now.
Result<ServedFile*> Pager::serve_file(const RegionRequest& request) {
  auto file = open_file_of(request);
  if (!file) return forward_error(std::move(file));
  bool is_told = false;
  for (const auto& served : files_) {
    if (served->is_still(file->identity())) return served.get();
    if (!served->file.identity().is_of_file(file->identity())) continue;
    look_at(*served);
    tell_change(*served);
    is_told = is_told || served->is_change_told;
  }
  auto served = serve_anew(request, std::move(*file));
  // Loops that write and map a file over and over have heard of it.
  if (served) (*served)->is_change_told = is_told;
  return served;
}

Result<ServedFile*> Pager::serve_anew(const RegionRequest& request, io::ModelFile file) {
  if (!file.is_direct()) {
    notice(request.name +
           ": no direct reads on this filesystem; weights go through the page cache "
           "and are dropped from it again, which costs CPU time");
  }
  const uint64_t size_bytes = file.size_bytes();
  auto served = std::make_unique<ServedFile>(ServedFile{.file = std::move(file),
                                                        .chunk_bytes = chunk_bytes_,
                                                        .name = request.name,
                                                        .layers = {},
                                                        .taught = {},
                                                        .regions = {},
                                                        .memory = {}});
  served->seen = served->file.identity();
  served->chunks = static_cast<uint32_t>(round_up(size_bytes, chunk_bytes_) / chunk_bytes_);
  served->layers = std::make_shared<ServedLayers>(
      request.name, size_bytes, request.model == nullptr ? model::Model{} : *request.model,
      chunk_bytes_, served->chunks);
  served->taught = lessons::taught_file(request.name, size_bytes, served->layers->model());
  if (shares_memory()) {
    auto memory = module_ != nullptr
                      ? module_->add_memory(served->chunks)
                      : window::SharedMemory::create(served->chunks * chunk_bytes_, chunk_bytes_);
    if (!memory) return forward_error(std::move(memory));
    served->memory = std::move(*memory);
  }
  served->first_chunk = take_chunk_ids(served->chunks);
  for (uint32_t i = 0; i < served->chunks; ++i) owners_[served->first_chunk + i] = served.get();
  if (options_.touch_record != nullptr) {
    options_.touch_record->add_file(request.name, served->first_chunk, served->chunks);
  }
  add(telemetry_.models, 1);
  files_.push_back(std::move(served));
  find_lesson();
  return files_.back().get();
}

// Of the files that are served now. Whoever adapts begins with the policy that can use all of it.
void Pager::find_lesson() {
  if (options_.lesson_directory.empty()) return;
  std::vector<lessons::TaughtFile> files;
  for (const auto& served : files_) files.push_back(served->taught);
  auto found = lessons::find_lesson(options_.lesson_directory, chunk_bytes_, files);
  if (!found) return;
  kept_lesson_ = std::move(found);
  const bool is_first = policy::policy_name(telemetry_.policy) == policy::default_policy;
  if (!kept_lesson_->has_pace() || !is_first) return;
  if (!adaptation_ || !adaptation_->is_at_rest()) return;
  make_policy(policy::learning_policy);
  begin_adapting(policy::learning_policy);
}

std::vector<lessons::NumberedFile> Pager::numbered_files() const {
  std::vector<lessons::NumberedFile> files;
  for (const auto& served : files_) files.push_back({served->taught, served->first_chunk});
  return files;
}

// What the policy learned itself is worth more than what an earlier run did.
policy::Lesson Pager::lesson() const {
  return kept_lesson_ ? lessons::lesson_for(*kept_lesson_, numbered_files()) : policy_->lesson();
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

// Of the chunks that somebody can touch now; also says how many these are.
policy::ChunkOrder Pager::find_order(uint32_t& shown_chunks) const {
  policy::ChunkOrder order;
  for (const auto& served : files_) {
    policy::append_chunk_order(served->layers->model(), 0,
                               {served->first_chunk, served->chunks, 0, chunk_bytes_}, order);
  }
  std::vector<bool> is_shown(table_.chunks());
  shown_chunks = 0;
  for (const auto& served : files_) {
    if (!served->is_kept) continue;
    std::fill_n(is_shown.begin() + served->first_chunk, served->chunks, true);
    shown_chunks += served->chunks;
  }
  for (const Place& place : regions_) {
    for (uint32_t i = 0; i < place.region->chunks(); ++i) {
      if (!place.region->is_live(i)) continue;
      const ChunkId chunk = place.served->chunk_of(*place.region, i);
      shown_chunks += is_shown[chunk] ? 0 : 1;
      is_shown[chunk] = true;
    }
  }
  const auto is_gone = [&](ChunkId chunk) { return !is_shown[chunk]; };
  order.kept = kept_;
  order.lesson = lesson();
  policy::erase_chunks(order, is_gone);
  return order;
}

void Pager::tell_order() {
  is_order_stale_ = false;
  order_told_ns_ = now_ns_;
  uint32_t shown_chunks = 0;
  const policy::ChunkOrder order = find_order(shown_chunks);
  policy_->set_order(order);
  if (adaptation_) {
    // A mixture's policy compares its rules itself (policy/expert_rules.h), and a sample as short
    // as its chunks are many would be of too few tokens to tell more.
    const uint32_t watched_chunks = order.experts.empty() ? shown_chunks : 0;
    adaptation_->set_chunks(watched_chunks, static_cast<uint32_t>(order.cyclic.size()), progress());
  }
  // What was touched and not served yet must not be forgotten with the old order.
  for (ChunkId chunk = 0; chunk < waiting_.size(); ++chunk) {
    if (waiting_[chunk].is_waited_for) policy_->on_touch(chunk, policy::anywhere);
  }
  // At the end an engine unmaps everything; the report shall say how it was before.
  if (shown_chunks == 0) return;
  raise_to(telemetry_.model_bytes, uint64_t{shown_chunks} * chunk_bytes_);
  const bool is_taught = kept_lesson_ && !policy_->lesson().is_empty();
  if (is_taught) raise_to(telemetry_.lesson_chunks, order.lesson.order.size());
  account_parts();
}

void Pager::do_remove(const AddressSpace& space, std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + round_up(length_bytes, os_page_bytes);
  // First every region lets go, then memory is unmapped: one may lie in a hole of another.
  std::vector<Span> unmapped;
  for (const Place& place : regions_) {
    const Span span = place.region->part_of({begin, end});
    if (&place.region->space() != &space || span.is_empty()) continue;
    place.region->for_each_piece(span.begin, span.end,
                                 [&](uint32_t index, uint32_t first_page, uint32_t count) {
                                   remove_pages(place, index, first_page, count);
                                 });
    unmapped.push_back(span);
  }
  for (const Span& span : unmapped) {
    auto* const at = reinterpret_cast<void*>(span.begin);
    // A guest unmaps its memory itself.
    if (space.is_own()) kernel::munmap(at, span.length_bytes());
    space.uffd().wake(at, span.length_bytes());
  }
  if (unmapped.empty()) return;
  drop_removed_regions();
  tell_order();
}

// The pages are about to be unmapped. A chunk that was moved here gives its slot back first; one
// that loses a part becomes an edge.
void Pager::remove_pages(const Place& place, uint32_t index, uint32_t first, uint32_t count) {
  Region& region = *place.region;
  Region::Notes& notes = region.notes(index);
  const bool was_live = region.is_live(index);
  const ChunkId chunk = place.served->chunk_of(region, index);
  if (notes.is_placed && mapper_->moves_into(region, index)) take_back_slot(region, index, chunk);
  const bool has_more = !region.drop_unmapped_pages(index, first, count);
  if (!was_live || has_more) return;
  notes.is_placed = false;
  notes.is_waited_for = false;
  if (place.served->is_shown(chunk)) return release_if_nowhere(chunk);
  stop_waiting(chunk);
  if (place.served->is_kept) return release_if_nowhere(chunk);
  if (table_.state(chunk) == ChunkState::reading) {
    waiting_[chunk].is_doomed = true;
  } else if (table_.is_resident(chunk)) {
    release(chunk);
  }
}

// mapped → ready, whoever pins the pages.
void Pager::take_back_slot(Region& region, uint32_t index, ChunkId chunk) {
  const bool is_whole = take_tripwire_back(chunk);
  WP_ASSERT(is_whole);
  if (!take_out(chunk)) {
    // Somebody pins the pages: they go with the mapping, and the slot gets other memory.
    std::byte* const address = region.chunk_address(index);
    const Outcome refilled = own_->uffd().copy(memory_of(chunk), address, chunk_bytes_);
    WP_ASSERT(refilled == Outcome::done);
    kernel::madvise(address, chunk_bytes_, MADV_DONTNEED);
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
    if (!served->regions.empty() || served->is_kept) return false;
    const ChunkId end = served->first_chunk + served->chunks;
    for (ChunkId chunk = served->first_chunk; chunk < end; ++chunk) {
      if (table_.state(chunk) == ChunkState::reading) return false;
    }
    for (ChunkId chunk = served->first_chunk; chunk < end; ++chunk) owners_[chunk] = nullptr;
    std::erase_if(kept_,
                  [&](ChunkId chunk) { return served->first_chunk <= chunk && chunk < end; });
    return true;
  });
}

// The kernel asks for permission before it asks the pager, so its own protection does it all. But
// it divides mappings, and moves nothing across such a line or between places that are protected
// otherwise: these chunks are copied from now on.
void Pager::do_protect(std::byte* address, uint64_t length_bytes, bool is_accessible) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + round_up(length_bytes, os_page_bytes);
  for (const Place& place : regions_) {
    Region& region = *place.region;
    const Span part = region.part_of({begin, end});
    if (!region.space().is_own() || part.is_empty()) continue;
    region.for_each_piece(part.begin, part.end, [&](uint32_t index, uint32_t, uint32_t) {
      Region::Notes& notes = region.notes(index);
      if (notes.is_placed && mapper_->moves_into(region, index)) {
        take_back_slot(region, index, place.served->chunk_of(region, index));
      }
      notes.is_divided = true;
    });
    region.set_accessible(part, is_accessible);
  }
}

void Pager::do_advise(const AddressSpace& space, std::byte* address, uint64_t length_bytes,
                      Advice advice) {
  std::vector<ChunkId> chunks;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + length_bytes;
  if (advice == Advice::discard) {
    for (const Place& place : regions_) {
      // A guest's views are private, and in its own hands.
      if (!place.region->space().is_own()) continue;
      shares_memory() ? discard_pages(*place.region, begin, end)
                      : discard_written(place, begin, end);
    }
  }
  for (const Place& place : regions_) {
    if (&place.region->space() != &space) continue;
    place.region->for_each_piece(begin, end, [&](uint32_t index, uint32_t, uint32_t) {
      if (!place.region->is_live(index)) return;
      chunks.push_back(place.served->chunk_of(*place.region, index));
    });
  }
  if (advice == Advice::will_need) {
    policy_->will_need(chunks);
  } else {
    policy_->consumed(chunks);
  }
}

// The same for a view of shared memory: what the view does not show is shown again when touched.
void Pager::discard_pages(const Region& region, uintptr_t begin, uintptr_t end) {
  region.for_each_live_run_in(begin, end, [](std::byte* address, uint64_t length_bytes) {
    kernel::madvise(address, length_bytes, MADV_DONTNEED);
  });
}

// MADV_DONTNEED on a private mapping: the engine's own pages are gone, the file shows again.
void Pager::discard_written(const Place& place, uintptr_t begin, uintptr_t end) {
  Region& region = *place.region;
  region.for_each_piece(begin, end, [&](uint32_t index, uint32_t first, uint32_t count) {
    Region::Notes& notes = region.notes(index);
    if (!notes.is_written) return;
    // What is there of the chunk goes too, so that its pages are all there or all absent.
    if (notes.is_placed) {
      window::drop_live_pages(region, index);
      notes.is_placed = false;
      release_if_nowhere(place.served->chunk_of(region, index));
    }
    region.restore_written(index, first, count, [](std::byte* address, uint64_t length_bytes) {
      kernel::madvise(address, length_bytes, MADV_DONTNEED);
    });
    notes.is_written = region.written_pages(index).any();
    // Pages of a chunk that nobody will read again: whoever touched them would wait for ever.
    const ChunkId chunk = place.served->chunk_of(region, index);
    if (table_.state(chunk) == ChunkState::failed) seal_from(chunk, 0);
    is_order_stale_ = true;
  });
}

// The pager's thread has a descriptor table of its own, which other processes see under its number.
std::string Pager::find_file_link(std::byte* address) {
  // The newest that begins there: another's hole may begin there too.
  const auto place = std::find_if(regions_.rbegin(), regions_.rend(), [&](const Place& it) {
    return it.region->space().is_own() && it.region->address() == address;
  });
  if (place == regions_.rend()) return "";
  return link_of_descriptor(place->served->file.fd());
}

std::vector<Span> Pager::find_written_spans() const {
  std::vector<Span> spans;
  const auto add_span = [&](const std::byte* address, uint64_t length) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (!spans.empty() && spans.back().end == begin) {
      spans.back().end += length;
    } else {
      spans.push_back({begin, begin + length});
    }
  };
  for (const Place& place : regions_) {
    const Region& region = *place.region;
    for (uint32_t i = 0; i < region.chunks(); ++i) {
      if (shares_memory()) {
        window::let_children_inherit_written(region, i, *page_map_, add_span);
      } else if (region.notes(i).is_written) {
        region.for_each_run(i, region.written_pages(i), add_span);
      }
    }
  }
  if (shares_memory()) {
    uint64_t written_bytes = 0;
    for (const Span& span : spans) written_bytes += span.end - span.begin;
    set(telemetry_.written_bytes, written_bytes);
  }
  return spans;
}

void Pager::do_residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (uint64_t page = 0; page < length_bytes / os_page_bytes; ++page) {
    const uintptr_t at = begin + page * os_page_bytes;
    const Place place = find(*own_, at);
    const bool is_mapped =
        place.region != nullptr && place.region->notes(place.region->chunk_index(at)).is_placed;
    pages[page] = is_mapped ? 1 : 0;
  }
}

}  // namespace weightpager
