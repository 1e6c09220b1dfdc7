#include "pager/window/mapper.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/window/module_window.h"
#include "pager/window/page_size.h"
#include "pager/window/shared_memory.h"

namespace weightpager::window {
namespace {

using fault::Outcome;
using fault::Userfaultfd;

class MoveMapper final : public Mapper {
 public:
  const char* name() const override { return "move"; }
  bool keeps_slot() const override { return true; }
  bool moves_into(const Region& region, uint32_t index) const override {
    return !region.extent().is_writable && region.edge(index) == nullptr &&
           !region.notes(index).is_divided;
  }

  // The way out has the slot as its destination, and the kernel wants that registered too.
  Status prepare_slots(Userfaultfd& uffd, std::byte* slots, uint64_t length_bytes) override {
    return uffd.register_range(slots, length_bytes);
  }
  bool registers_slots() const override { return true; }

  Outcome show(Region& region, ChunkRun run, std::byte* slots) override {
    if (!moves_into(region, run.index)) return copy_live_pages(region, run.index, slots);
    const Userfaultfd& uffd = region.space().uffd();
    std::byte* const chunks = region.chunk_address(run.index);
    const uint64_t length_bytes = run.count * region.chunk_bytes();
    const Outcome outcome = uffd.move(chunks, slots, length_bytes);
    if (outcome != Outcome::done) return outcome;
    // Only then may who waits go on: its access may be the write that must not be.
    uffd.protect(chunks, length_bytes, true);
    bool is_waited_for = false;
    for (uint32_t i = 0; i < run.count; ++i) {
      is_waited_for = is_waited_for || region.notes(run.index + i).is_waited_for;
    }
    if (is_waited_for) uffd.wake(chunks, length_bytes);
    return Outcome::done;
  }

  Outcome hide(Region& region, ChunkRun run, std::byte* slots) override {
    if (!moves_into(region, run.index)) {
      drop_live_pages(region, run.index);
      return Outcome::done;
    }
    for (uint32_t i = 0; i < run.count; ++i) allow_writing(region, run.index + i);
    return region.space().uffd().move(slots, region.chunk_address(run.index),
                                      run.count * region.chunk_bytes());
  }

 private:
  // The kernel moves nothing out of a mapping that is not writable.
  static void allow_writing(Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    if (!notes.is_write_refused) return;
    kernel::mprotect(region.chunk_address(index), region.chunk_bytes(), PROT_READ | PROT_WRITE);
    notes.is_write_refused = false;
  }
};

class CopyMapper final : public Mapper {
 public:
  const char* name() const override { return "copy"; }
  bool keeps_slot() const override { return false; }
  Outcome show(Region& region, ChunkRun run, std::byte* slot) override {
    return copy_live_pages(region, run.index, slot);
  }
  Outcome hide(Region& region, ChunkRun run, std::byte*) override {
    drop_live_pages(region, run.index);
    return Outcome::done;
  }
};

class CollapseMapper final : public Mapper {
 public:
  const char* name() const override { return "collapse"; }
  bool keeps_slot() const override { return true; }
  bool shares_memory() const override { return true; }

  Outcome show(Region& region, ChunkRun run, std::byte*) override {
    const AddressSpace& space = region.space();
    std::byte* const chunk = region.chunk_address(run.index);
    // Of small pages this would make a huge one by copying them: dearer than to show them as they
    // are.
    const bool can_be_huge = has_huge_pages_ && region.edge(run.index) == nullptr;
    if (!can_be_huge || !space.show_huge(chunk, huge_page_bytes)) {
      return show_live_pages(region, run.index);
    }
    space.uffd().wake(chunk, huge_page_bytes);
    return Outcome::done;
  }

  // In this process only, and where nothing can be lost by it. (Eviction does not hide: it takes
  // the memory itself away.)
  Outcome hide(Region& region, ChunkRun run, std::byte*) override {
    if (!region.space().is_own() || region.extent().is_writable) return Outcome::busy;
    drop_live_pages(region, run.index);
    return Outcome::done;
  }

  void set_huge_pages(bool has_huge_pages) { has_huge_pages_ = has_huge_pages; }

 private:
  bool has_huge_pages_ = false;
};

// A region shows what its memory shows.
class ModuleMapper final : public Mapper {
 public:
  const char* name() const override { return "module"; }
  bool keeps_slot() const override { return true; }
  bool shares_memory() const override { return true; }
  bool needs_module() const override { return true; }
  Outcome show(Region&, ChunkRun, std::byte*) override { return Outcome::done; }
  Outcome hide(Region&, ChunkRun, std::byte*) override { return Outcome::done; }
};

// A chunk of scratch memory, flagged as the slot pool is.
class ScratchSlot {
 public:
  explicit ScratchSlot(uint64_t chunk_bytes) {
    whole_ = kernel::mmap(nullptr, 2 * huge_page_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole_ == MAP_FAILED) return;
    advise_page_size(bytes(), huge_page_bytes, chunk_bytes);
    kernel::keep_to_process(bytes(), huge_page_bytes);
  }
  ~ScratchSlot() {
    if (whole_ != MAP_FAILED) kernel::munmap(whole_, 2 * huge_page_bytes);
  }
  ScratchSlot(const ScratchSlot&) = delete;
  ScratchSlot& operator=(const ScratchSlot&) = delete;

  bool is_there() const { return whole_ != MAP_FAILED; }
  std::byte* bytes() const {
    const auto grid = round_up(reinterpret_cast<uintptr_t>(whole_), huge_page_bytes);
    return reinterpret_cast<std::byte*>(grid);
  }

 private:
  void* whole_ = MAP_FAILED;
};

Status refuse(const Mapper& mapper, const char* step) {
  const int error = errno;
  return fail(std::string("the mapper '") + mapper.name() + "' does not work here: " + step + ": " +
                  std::strerror(error),
              "use --mapper auto, which takes what works", error);
}

// Takes the chunk of a region in and out once, and looks at the bytes.
Status show_and_hide(Mapper& mapper, Region& region, std::byte* bytes) {
  const uint64_t chunk_bytes = region.chunk_bytes();
  std::memset(bytes, 0x5a, chunk_bytes);
  if (mapper.show(region, {}, bytes) != Outcome::done) return refuse(mapper, "mapping a chunk");
  const std::byte* const chunk = region.chunk_address(0);
  if (chunk[0] != std::byte{0x5a} || chunk[chunk_bytes - 1] != std::byte{0x5a}) {
    return refuse(mapper, "the mapped chunk has other bytes than its slot");
  }
  if (mapper.hide(region, {}, bytes) != Outcome::done) return refuse(mapper, "unmapping a chunk");
  if (mapper.keeps_slot() && bytes[chunk_bytes / 2] != std::byte{0x5a}) {
    return refuse(mapper, "the slot has other bytes than the chunk had");
  }
  return {};
}

Extent scratch_extent(uint64_t chunk_bytes) {
  return {.length_bytes = chunk_bytes, .file_size_bytes = chunk_bytes};
}

Status probe_slots(Mapper& mapper, AddressSpace& space, uint64_t chunk_bytes) {
  ScratchSlot slot(chunk_bytes);
  if (!slot.is_there()) return refuse(mapper, "no memory to try it with");
  auto region = Region::reserve(scratch_extent(chunk_bytes), chunk_bytes, space);
  if (!region) return forward_error(std::move(region));
  std::memset(slot.bytes(), 0, chunk_bytes);
  auto ready = mapper.prepare_slots(space.uffd(), slot.bytes(), chunk_bytes);
  if (ready) ready = space.uffd().register_range((*region)->address(), chunk_bytes, true);
  if (!ready) return ready;
  return show_and_hide(mapper, **region, slot.bytes());
}

Status probe_memory(CollapseMapper& mapper, AddressSpace& space, uint64_t chunk_bytes) {
  auto memory = SharedMemory::create(chunk_bytes, chunk_bytes);
  if (!memory) return forward_error(std::move(memory));
  auto region =
      Region::reserve(scratch_extent(chunk_bytes), chunk_bytes, space, (*memory)->view_fd());
  if (!region) return forward_error(std::move(region));
  auto ready = space.uffd().register_view((*region)->address(), chunk_bytes);
  if (!ready) return ready;
  mapper.set_huge_pages((*memory)->has_huge_pages());
  return show_and_hide(mapper, **region, (*memory)->at(0, 0));
}

// Nothing is hidden at the end: the context goes, with all that it shows.
Status probe_module(const ModuleMapper& mapper, AddressSpace& space, uint64_t chunk_bytes) {
  auto window = ModuleWindow::create(1, chunk_bytes);
  if (!window) return forward_error(std::move(window));
  auto memory = (*window)->add_memory(1);
  if (!memory) return forward_error(std::move(memory));
  auto region = Region::reserve(scratch_extent(chunk_bytes), chunk_bytes, space,
                                (*memory)->view_fd(), MAP_SHARED);
  if (!region) return forward_error(std::move(region));
  std::memset((*memory)->at(0, 0), 0x5a, chunk_bytes);
  if ((*memory)->show_chunk(0, 0) != Outcome::done) return refuse(mapper, "mapping a chunk");
  if ((*region)->address()[chunk_bytes - 1] != std::byte{0x5a}) {
    return refuse(mapper, "the mapped chunk has other bytes than its slot");
  }
  return {};
}

tl::unexpected<Error> too_old(const char* name, const char* what) {
  return fail(std::string("the mapper '") + name + "' needs " + what,
              "use --mapper auto, which takes what works", ENOTTY);
}

Result<std::unique_ptr<Mapper>> try_mapper(std::string_view name, AddressSpace& space,
                                           uint64_t chunk_bytes) {
  if (name == "collapse") {
    if (!space.uffd().has_shared_memory()) {
      return too_old("collapse",
                     "userfaultfd for shared memory, which this kernel lacks "
                     "(Linux 5.14 has it)");
    }
    auto mapper = std::make_unique<CollapseMapper>();
    if (auto works = probe_memory(*mapper, space, chunk_bytes); !works)
      return forward_error(std::move(works));
    return mapper;
  }
  if (name == "module") {
    auto mapper = std::make_unique<ModuleMapper>();
    if (auto works = probe_module(*mapper, space, chunk_bytes); !works) {
      return forward_error(std::move(works));
    }
    return mapper;
  }
  if (name == "move" && !space.uffd().has_move()) {
    return too_old("move", "UFFDIO_MOVE, which this kernel lacks (Linux 6.8 has it)");
  }
  std::unique_ptr<Mapper> mapper;
  if (name == "move") {
    mapper = std::make_unique<MoveMapper>();
  } else {
    mapper = std::make_unique<CopyMapper>();
  }
  if (auto works = probe_slots(*mapper, space, chunk_bytes); !works)
    return forward_error(std::move(works));
  return mapper;
}

}  // namespace

Outcome copy_live_pages(const Region& region, uint32_t index, const std::byte* bytes) {
  Outcome outcome = Outcome::done;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    if (outcome != Outcome::done) return;
    const std::byte* const source = bytes + (address - region.chunk_address(index));
    outcome = region.space().uffd().copy(address, source, length_bytes, true);
  });
  return outcome;
}

Outcome show_live_pages(const Region& region, uint32_t index) {
  Outcome outcome = Outcome::done;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    if (outcome == Outcome::done) outcome = region.space().uffd().show(address, length_bytes);
  });
  return outcome;
}

void drop_live_pages(const Region& region, uint32_t index) {
  region.for_each_live_run(index, [](std::byte* address, uint64_t length_bytes) {
    const bool is_done = kernel::madvise(address, length_bytes, MADV_DONTNEED) == 0;
    // The window would only grow.
    if (!is_done && is_refusal(errno)) end_refused("madvise", errno);
  });
}

bool is_mapper_name(std::string_view name) {
  return std::find(mapper_names.begin(), mapper_names.end(), name) != mapper_names.end();
}

const char* shared_mapper_name() {
  return ::access(module_device_path, R_OK | W_OK) == 0 ? "module" : "collapse";
}

Result<std::unique_ptr<Mapper>> choose_mapper(std::string_view name, AddressSpace& space,
                                              uint64_t chunk_bytes, bool expects_writable) {
  WP_ASSERT(is_mapper_name(name));
  if (name != "auto") return try_mapper(name, space, chunk_bytes);
  std::vector<const char*> best_first = {"move"};
  // Shared memory of small pages is dearer than copying.
  const auto memory = SharedMemory::create(chunk_bytes, chunk_bytes);
  if (memory && (*memory)->has_huge_pages()) {
    best_first.insert(best_first.begin() + (expects_writable ? 0 : 1), "collapse");
  }
  best_first.insert(best_first.begin(), "module");
  for (const char* candidate : best_first) {
    if (auto mapper = try_mapper(candidate, space, chunk_bytes)) return mapper;
  }
  return try_mapper("copy", space, chunk_bytes);
}

}  // namespace weightpager::window
