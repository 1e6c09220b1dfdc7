#include "pager/window/module_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/owned_fd.h"
#include "pager/window/probe.h"

namespace weightpager::window {

using fault::Outcome;

/// The module's side of a file, for as long as the file is served.
class ModuleMemory::File final : public FileBacking {
 public:
  File(ModuleMemory& memory, ModuleFile file) : memory_(memory), file_(std::move(file)) {}
  ~File() override { memory_.forget(file_.number); }

  int view_fd() const override { return file_.view.get(); }
  bool shows_by_itself() const override { return true; }
  uint32_t number() const { return file_.number; }

 private:
  ModuleMemory& memory_;
  const ModuleFile file_;
};

Result<std::unique_ptr<BackingMemory>> ModuleMemory::open(const BackingOptions& options,
                                                          const BackingParts& parts) {
  auto window = ModuleWindow::create(options.slots_max, options.chunk_bytes);
  if (!window) return forward_error(std::move(window));
  return std::unique_ptr<BackingMemory>(new ModuleMemory(options, parts, std::move(*window)));
}

ModuleMemory::ModuleMemory(const BackingOptions& options, const BackingParts& parts,
                           std::unique_ptr<ModuleWindow> window)
    : ViewMemory(options, parts), window_(std::move(window)) {}

// Nothing has to be hidden at the end, because the module's window goes with all that it shows.
Status ModuleMemory::probe(AddressSpace& space, uint64_t chunk_bytes) {
  const auto window = ModuleWindow::create(1, chunk_bytes);
  if (!window) return tl::make_unexpected(window.error());
  auto file = (*window)->add_file(1);
  if (!file) return forward_error(std::move(file));
  auto chunk = ProbedChunk::of_view("module", space, chunk_bytes, file->view.get(), MAP_SHARED,
                                    (*window)->slot_address(0));
  if (!chunk) return forward_error(std::move(chunk));
  const auto show = [&](Region&, std::byte*) { return (*window)->show(file->number, 0, 0); };
  const auto hide = [](Region&, std::byte*) { return Outcome::done; };
  return chunk->show_and_hide(show, hide);
}

Status ModuleMemory::add_file(ShownFile& file) {
  auto added = window_->add_file(file.chunks);
  if (!added) return forward_error(std::move(added));
  files_.emplace_back(added->number, &file);
  file.backing = std::make_unique<File>(*this, std::move(*added));
  return {};
}

void ModuleMemory::forget(uint32_t number) {
  std::erase_if(files_, [&](const auto& it) { return it.first == number; });
}

uint32_t ModuleMemory::number_of(const ShownFile& file) {
  return static_cast<const File&>(*file.backing).number();
}

Result<std::unique_ptr<Region>> ModuleMemory::reserve(const ShownFile& file, const Extent& extent) {
  return Region::reserve(extent, chunk_bytes_, own_, file.backing->view_fd(), MAP_SHARED);
}

// Chunks that failed for an earlier region are tried once more for this one.
void ModuleMemory::on_region_added(const ShownFile& file, const Region& region) {
  for (uint32_t i = 0; i < region.chunks(); ++i) {
    const ChunkId chunk = file.chunk_of(region, i);
    if (!table_.is_resident(chunk)) window_->give_back(number_of(file), chunk - file.first_chunk);
  }
}

std::byte* ModuleMemory::bytes_of(const ShownFile&, ChunkId chunk) const {
  return window_->slot_address(table_.slot(chunk));
}

// Shows the chunk in every view, known or not. Threads that wait for the chunk go on.
Outcome ModuleMemory::show(const ShownFile& file, ChunkId chunk, bool, bool) {
  const Outcome outcome =
      window_->show(number_of(file), chunk - file.first_chunk, table_.slot(chunk));
  if (outcome != Outcome::done) return outcome;
  file.for_each_view(chunk,
                     [](Region& region, uint32_t index) { region.notes(index).is_placed = true; });
  if (table_.state(chunk) == ChunkState::ready) table_.map(chunk, true);
  return Outcome::done;
}

bool ModuleMemory::hide(const ShownFile& file, ChunkId chunk, bool) {
  note_gone(file, chunk);
  window_->hide(number_of(file), chunk - file.first_chunk, 1);
  table_.hide(chunk);
  return true;
}

// All chunks leave every view in one step; then each gives its memory back.
uint32_t ModuleMemory::evict(const ShownFile& file, const Run& run) {
  if (run.count > 1) window_->hide(number_of(file), run.first - file.first_chunk, run.count);
  return ViewMemory::evict(file, run);
}

void ModuleMemory::give_back(const ShownFile& file, ChunkId chunk) {
  window_->give_back(number_of(file), chunk - file.first_chunk);
  note_gone(file, chunk);
}

// A chunk that has failed before is poisoned, too: a thread that touched it after that has to be
// told so.
void ModuleMemory::fail_chunk(const ShownFile& file, ChunkId chunk) {
  BackingMemory::fail_chunk(file, chunk);
  window_->poison(number_of(file), chunk - file.first_chunk);
}

// A file may be gone with its last region, and threads that waited for it with that region.
// (Another file may have its number by now.)
std::optional<MemoryTouch> ModuleMemory::next_touch() {
  while (const auto touch = window_->next_touch()) {
    const auto file = std::find_if(files_.begin(), files_.end(),
                                   [&](const auto& it) { return it.first == touch->file; });
    const auto at = static_cast<uint32_t>(touch->offset_bytes / chunk_bytes_);
    if (file == files_.end() || at >= file->second->chunks) continue;
    return MemoryTouch{file->second, file->second->first_chunk + at, touch->offset_bytes,
                       touch->thread_id};
  }
  return {};
}

// The kernel counts the module's memory as file memory, as often as it is mapped.
uint64_t ModuleMemory::engine_bytes(const ProcessMemory& all, uint32_t) const {
  return all.anonymous_bytes;
}

}  // namespace weightpager::window
