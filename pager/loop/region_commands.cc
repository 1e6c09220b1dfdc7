#include "pager/loop/region_commands.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager {

using policy::ChunkId;
using telemetry::add;
using telemetry::raise_to;
using window::AddressSpace;
using window::ChunkState;
using window::Region;

namespace {

// Up to the end of the last page, as munmap counts.
Span pages_of(const std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return {begin, begin + round_up(length_bytes, os_page_bytes)};
}

}  // namespace

RegionCommands::RegionCommands(const PagerOptions& options, const LoopParts& parts,
                               ChunkMover& chunks, FileReads& reads, AddressSpaces& spaces)
    : options_(options), parts_(parts), chunks_(chunks), reads_(reads), spaces_(spaces) {}

// ---- Files ----

// A file that is mapped once more, under whatever name, keeps its chunks, unless it was changed
// since the first of them was read: nothing of what was there before may be seen by who maps it
// now.
Result<ServedFile*> RegionCommands::serve_file(const RegionRequest& request) {
  auto file = open_file_of(request);
  if (!file) return forward_error(std::move(file));
  bool is_told = false;
  for (const auto& served : parts_.files.files()) {
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

Result<ServedFile*> RegionCommands::serve_anew(const RegionRequest& request, io::ModelFile file) {
  if (!file.is_direct()) {
    notice(request.name +
           ": no direct reads on this filesystem; weights go through the page cache "
           "and are dropped from it again, which costs CPU time");
  }
  auto served = std::make_unique<ServedFile>(std::move(file));
  served->chunk_bytes = options_.chunk_bytes;
  served->chunks = static_cast<uint32_t>(round_up(served->size_bytes, options_.chunk_bytes) /
                                         options_.chunk_bytes);
  served->name = request.name;
  open_copies(*served, request.copies);
  served->layers = std::make_shared<ServedLayers>(
      request.name, served->size_bytes, request.model == nullptr ? model::Model{} : *request.model,
      options_.chunk_bytes, served->chunks);
  served->profiled =
      profiles::profiled_file(request.name, served->size_bytes, served->layers->model());
  if (auto done = parts_.memory.backing().add_file(*served); !done)
    return forward_error(std::move(done));
  ServedFile& added = take_in(std::move(served));
  add(parts_.telemetry.models, 1);
  add(parts_.telemetry.mapped_file_bytes, added.size_bytes);
  parts_.policy.find_learned_profile();
  return &added;
}

ServedFile& RegionCommands::take_in(std::unique_ptr<ServedFile> served) {
  ServedFile& added = parts_.files.add(std::move(served));
  parts_.waiters.resize(parts_.table.chunks());
  reads_.resize(parts_.table.chunks());
  parts_.recorder.add_file(added.name, added.first_chunk, added.chunks);
  return added;
}

Result<const ServedFile*> RegionCommands::keep_file(const RegionRequest& request) {
  auto served = serve_file(request);
  if (!served) return forward_error(std::move(served));
  (*served)->is_kept = true;
  parts_.policy.tell_order();
  return *served;
}

ServedFile& RegionCommands::kept_file(const ServedFile* file) const {
  const auto found = std::find_if(parts_.files.files().begin(), parts_.files.files().end(),
                                  [&](const auto& it) { return it.get() == file; });
  WP_ASSERT(found != parts_.files.files().end() && (*found)->is_kept);
  return **found;
}

std::string RegionCommands::link_if_changed(const ServedFile* file) const {
  ServedFile& served = kept_file(file);
  const auto now = io::identity_of(served.file.fd());
  if (now && served.is_still(*now)) return "";
  look_at(served);
  tell_change(served);
  return link_of_descriptor(served.file.fd());
}

void RegionCommands::forsake_file(const ServedFile* file) {
  ServedFile& served = kept_file(file);
  served.is_kept = false;
  for (ChunkId chunk = served.first_chunk; chunk < served.first_chunk + served.chunks; ++chunk) {
    if (parts_.table.is_resident(chunk) && !served.is_shown(chunk)) give_up(served, chunk);
  }
  drop_unused_files();
  parts_.policy.tell_order();
}

// Nobody shows the chunk any more. One that is being read goes as soon as the read ends.
void RegionCommands::give_up(const ServedFile& served, ChunkId chunk) {
  if (parts_.table.state(chunk) == ChunkState::reading) {
    reads_.doom(chunk);
  } else if (parts_.table.state(chunk) == ChunkState::leaving) {
    return;  // goes when its write ends
  } else if (parts_.table.is_resident(chunk)) {
    parts_.memory.backing().release(served, chunk);
  }
}

void RegionCommands::drop_unused_files() {
  parts_.files.drop_unused_files();
  parts_.policy.unpin_unserved();
}

// ---- Regions ----

Result<std::byte*> RegionCommands::add_region(const RegionRequest& request) {
  if (request.is_writable) {
    auto can_tell = parts_.memory.backing().check_writable(request.name);
    if (!can_tell) return forward_error(std::move(can_tell));
  }
  auto served = serve_file(request);
  if (!served) return forward_error(std::move(served));
  auto region = parts_.memory.backing().reserve(**served, {.offset_bytes = request.offset_bytes,
                                                           .length_bytes = request.length_bytes,
                                                           .file_size_bytes = (*served)->size_bytes,
                                                           .is_writable = request.is_writable});
  if (!region) return forward_error(std::move(region));
  std::byte* const address = (*region)->address();
  show_in(**served, std::move(*region));
  return address;
}

Result<std::byte*> RegionCommands::add_spilled_memory(const SpilledMemoryRequest& request) {
  WP_ASSERT(request.length_bytes > 0 && request.length_bytes % options_.chunk_bytes == 0);
  const auto chunks = static_cast<uint32_t>(request.length_bytes / options_.chunk_bytes);
  auto served = std::make_unique<ServedFile>(request.length_bytes,
                                             spill::SpilledChunks(chunks, request.blocks));
  served->chunk_bytes = options_.chunk_bytes;
  served->chunks = chunks;
  served->name = request.name;
  served->layers = std::make_shared<ServedLayers>(
      request.name, served->size_bytes, model::in_file_order(request.name, served->size_bytes),
      options_.chunk_bytes, chunks);
  auto region = parts_.memory.backing().reserve(*served, {.length_bytes = request.length_bytes,
                                                          .file_size_bytes = request.length_bytes,
                                                          .is_spilled = true});
  if (!region) return forward_error(std::move(region));
  std::byte* const address = (*region)->address();
  show_in(take_in(std::move(served)), std::move(*region));
  return address;
}

// From now on the region's faults are served.
void RegionCommands::show_in(ServedFile& served, std::unique_ptr<Region> region) {
  // What failed in another region is tried once more for this one.
  for (uint32_t i = 0; i < region->chunks(); ++i) {
    const ChunkId chunk = served.chunk_of(*region, i);
    if (parts_.table.state(chunk) == ChunkState::failed) parts_.table.forget_failure(chunk);
  }
  parts_.memory.backing().on_region_added(served, *region);
  parts_.files.add_region(served, std::move(region));
  parts_.memory.fit_table();
  parts_.policy.tell_order();
}

Status RegionCommands::add_guest_region(AddressSpace& guest, const ServedFile* file,
                                        const window::Extent& extent, std::byte* address) {
  ServedFile& served = kept_file(file);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + extent.length_bytes;
  size_t regions = 0;
  bool is_free = true;
  for (const ServedRegion& it : parts_.files.regions()) {
    if (&it.region->space() != &guest) continue;
    it.region->for_each_live_run_in(begin, end, [&](std::byte*, uint64_t) { is_free = false; });
    ++regions;
  }
  if (!is_free) return fail("two regions at one address", "", EEXIST);
  if (regions == regions_max) return fail("too many regions", "", ENOMEM);
  show_in(served, Region::of_guest(extent, options_.chunk_bytes, guest, address));
  return {};
}

void RegionCommands::remove_guest(AddressSpace* guest) {
  // Up to the end of its addresses.
  remove(*guest, nullptr, UINTPTR_MAX - os_page_bytes);
  WP_ASSERT(std::none_of(parts_.files.regions().begin(), parts_.files.regions().end(),
                         [&](const ServedRegion& it) { return &it.region->space() == guest; }));
  spaces_.remove_guest(guest);
}

void RegionCommands::remove(const AddressSpace& space, std::byte* address, uint64_t length_bytes) {
  const Span removed = pages_of(address, length_bytes);
  // First every region lets go, then memory is unmapped: one may lie in a hole of another.
  std::vector<Span> unmapped;
  for (const ServedRegion& it : parts_.files.regions()) {
    const Span part = it.region->part_of(removed);
    if (&it.region->space() != &space || part.is_empty()) continue;
    it.region->for_each_piece(part.begin, part.end,
                              [&](uint32_t index, uint32_t first_page, uint32_t count) {
                                remove_pages(it, index, first_page, count);
                              });
    unmapped.push_back(part);
  }
  for (const Span& span : unmapped) {
    auto* const at = reinterpret_cast<void*>(span.begin);
    // A guest unmaps its memory itself.
    if (space.is_own()) kernel::munmap(at, span.length_bytes());
    space.uffd().wake(at, span.length_bytes());
  }
  if (unmapped.empty()) return;
  parts_.files.drop_unused_regions();
  parts_.memory.fit_table();
  drop_unused_files();
  parts_.policy.tell_order();
}

// The pages are about to be unmapped. A chunk that loses a part becomes an edge.
void RegionCommands::remove_pages(const ServedRegion& of, uint32_t index, uint32_t first_page,
                                  uint32_t count) {
  Region& region = *of.region;
  Region::Notes& notes = region.notes(index);
  const bool was_live = region.is_live(index);
  const ChunkId chunk = of.served->chunk_of(region, index);
  parts_.memory.backing().leave_region(*of.served, region, index);
  const bool has_more = !region.drop_unmapped_pages(index, first_page, count);
  if (!was_live || has_more) return;
  notes.is_placed = false;
  notes.is_waited_for = false;
  if (of.served->is_shown(chunk)) return chunks_.release_if_nowhere(chunk);
  chunks_.stop_waiting(chunk);
  if (of.served->is_kept) return chunks_.release_if_nowhere(chunk);
  give_up(*of.served, chunk);
}

// The kernel asks for permission before it asks the pager, so its own protection does it all. But
// it divides mappings, and moves nothing across such a line or between places that are protected
// otherwise: these chunks are copied from now on.
void RegionCommands::protect(std::byte* address, uint64_t length_bytes, bool is_accessible) {
  const Span protected_pages = pages_of(address, length_bytes);
  for (const ServedRegion& it : parts_.files.regions()) {
    Region& region = *it.region;
    const Span part = region.part_of(protected_pages);
    if (!region.space().is_own() || part.is_empty()) continue;
    region.for_each_piece(part.begin, part.end, [&](uint32_t index, uint32_t, uint32_t) {
      parts_.memory.backing().leave_region(*it.served, region, index);
      region.notes(index).is_divided = true;
    });
    region.set_accessible(part, is_accessible);
  }
}

// ---- Advice ----

void RegionCommands::advise(const AddressSpace& space, std::byte* address, uint64_t length_bytes,
                            Advice advice) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const Span part{begin, begin + length_bytes};
  if (advice == Advice::discard) {
    for (const ServedRegion& it : parts_.files.regions()) {
      // A guest's views are private, and in its own hands.
      if (it.region->space().is_own()) discard_written(it, part);
    }
  }
  std::vector<ChunkId> chunks;
  for (const ServedRegion& it : parts_.files.regions()) {
    if (&it.region->space() != &space) continue;
    it.region->for_each_piece(part.begin, part.end, [&](uint32_t index, uint32_t, uint32_t) {
      if (it.region->is_live(index)) chunks.push_back(it.served->chunk_of(*it.region, index));
    });
  }
  if (advice == Advice::will_need) {
    parts_.policy.policy().will_need(chunks);
  } else {
    parts_.policy.policy().consumed(chunks);
  }
}

// MADV_DONTNEED: the engine's own pages are gone, the file shows again.
void RegionCommands::discard_written(const ServedRegion& of, const Span& part) {
  Region& region = *of.region;
  region.for_each_piece(
      part.begin, part.end, [&](uint32_t index, uint32_t first_page, uint32_t count) {
        if (!parts_.memory.backing().discard_written(region, index, first_page, count)) return;
        const ChunkId chunk = of.served->chunk_of(region, index);
        chunks_.release_if_nowhere(chunk);
        // Pages of a chunk that nobody will read again: whoever touched them
        // would wait for ever.
        if (parts_.table.state(chunk) == ChunkState::failed) chunks_.seal_from(chunk, 0);
        parts_.policy.note_order_stale();
      });
}

// ---- Questions ----

// The pager's thread has a descriptor table of its own, which other processes see under its number.
std::string RegionCommands::file_link(const std::byte* address) const {
  const ServedRegion found = parts_.files.beginning_at(address);
  return found.region == nullptr ? "" : link_of_descriptor(found.served->file.fd());
}

std::vector<Span> RegionCommands::written_spans() {
  std::vector<Span> spans;
  const auto add_span = [&](const std::byte* address, uint64_t length) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (!spans.empty() && spans.back().end == begin) {
      spans.back().end += length;
    } else {
      spans.push_back({begin, begin + length});
    }
  };
  for (const ServedRegion& it : parts_.files.regions()) {
    for (uint32_t i = 0; i < it.region->chunks(); ++i) {
      parts_.memory.backing().for_each_written_run(*it.region, i, add_span);
    }
  }
  // Of views nobody tells when they are written to, until here.
  uint64_t written_bytes = 0;
  for (const Span& span : spans) written_bytes += span.length_bytes();
  raise_to(parts_.telemetry.written_bytes, written_bytes);
  return spans;
}

void RegionCommands::residency(const std::byte* address, uint64_t length_bytes,
                               unsigned char* pages) const {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (uint64_t page = 0; page < length_bytes / os_page_bytes; ++page) {
    const uintptr_t at = begin + page * os_page_bytes;
    const Region* const region = parts_.files.find(spaces_.own(), at).region;
    const bool is_there = region != nullptr && region->notes(region->chunk_index(at)).is_placed;
    pages[page] = is_there ? 1 : 0;
  }
}

}  // namespace weightpager
