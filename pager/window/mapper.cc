#include "pager/window/mapper.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {
namespace {

using fault::Outcome;
using fault::Userfaultfd;

class MoveMapper final : public Mapper {
 public:
  explicit MoveMapper(Userfaultfd& uffd) : uffd_(uffd) {}
  const char* name() const override { return "move"; }
  bool keeps_slot() const override { return true; }

  // The way out has the slot as its destination, and the kernel wants that registered too.
  Status prepare_slots(std::byte* slots, uint64_t length_bytes) override {
    return uffd_.register_range(slots, length_bytes);
  }
  Outcome map(std::byte* chunk, std::byte* slot) override {
    return uffd_.move(chunk, slot, chunk_bytes);
  }
  Outcome unmap(std::byte* chunk, std::byte* slot) override {
    return uffd_.move(slot, chunk, chunk_bytes);
  }

 private:
  Userfaultfd& uffd_;
};

class CopyMapper final : public Mapper {
 public:
  explicit CopyMapper(Userfaultfd& uffd) : uffd_(uffd) {}
  const char* name() const override { return "copy"; }
  bool keeps_slot() const override { return false; }

  Status prepare_slots(std::byte*, uint64_t) override { return {}; }
  Outcome map(std::byte* chunk, std::byte* slot) override {
    return uffd_.copy(chunk, slot, chunk_bytes);
  }
  Outcome unmap(std::byte* chunk, std::byte*) override {
    return kernel::madvise(chunk, chunk_bytes, MADV_DONTNEED) == 0 ? Outcome::done
                                                                   : Outcome::failed;
  }

 private:
  Userfaultfd& uffd_;
};

// Two chunks of scratch memory, on the grid and flagged as pool and regions are.
class Scratch {
 public:
  Scratch() {
    whole_ = kernel::mmap(nullptr, 3 * chunk_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole_ == MAP_FAILED) return;
    kernel::madvise(chunk(0), 2 * chunk_bytes, MADV_HUGEPAGE);
    kernel::madvise(chunk(0), 2 * chunk_bytes, MADV_DONTFORK);
  }
  ~Scratch() {
    if (whole_ != MAP_FAILED) kernel::munmap(whole_, 3 * chunk_bytes);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool is_there() const { return whole_ != MAP_FAILED; }
  std::byte* chunk(int index) const {
    const auto grid = round_up(reinterpret_cast<uintptr_t>(whole_), chunk_bytes);
    return reinterpret_cast<std::byte*>(grid) + static_cast<uint64_t>(index) * chunk_bytes;
  }

 private:
  void* whole_ = MAP_FAILED;
};

// Takes a chunk in and out once and looks at the bytes.
Status probe(Mapper& mapper, Userfaultfd& uffd) {
  const auto no = [&](const char* step) {
    return fail(std::string("the mapper '") + mapper.name() + "' does not work here: " + step +
                    ": " + std::strerror(errno),
                "use --mapper auto, which takes what works", errno);
  };
  Scratch scratch;
  if (!scratch.is_there()) return no("no memory to try it with");
  std::byte* slot = scratch.chunk(0);
  std::byte* chunk = scratch.chunk(1);
  std::memset(slot, 0x5a, chunk_bytes);
  if (auto ready = mapper.prepare_slots(slot, chunk_bytes); !ready) return ready;
  if (auto ready = uffd.register_range(chunk, chunk_bytes); !ready) return ready;
  if (mapper.map(chunk, slot) != Outcome::done) return no("mapping a chunk");
  if (chunk[0] != std::byte{0x5a} || chunk[chunk_bytes - 1] != std::byte{0x5a}) {
    return no("the mapped chunk has other bytes than its slot");
  }
  if (mapper.unmap(chunk, slot) != Outcome::done) return no("unmapping a chunk");
  if (mapper.keeps_slot() && slot[chunk_bytes / 2] != std::byte{0x5a}) {
    return no("the slot has other bytes than the chunk had");
  }
  return {};
}

}  // namespace

std::unique_ptr<Mapper> make_move_mapper(Userfaultfd& uffd) {
  return std::make_unique<MoveMapper>(uffd);
}

std::unique_ptr<Mapper> make_copy_mapper(Userfaultfd& uffd) {
  return std::make_unique<CopyMapper>(uffd);
}

Outcome copy_live_pages(const Userfaultfd& uffd, const Region& region, uint32_t index,
                        const std::byte* slot) {
  Outcome outcome = Outcome::done;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    if (outcome != Outcome::done) return;
    outcome =
        uffd.copy(address, slot + (address - region.chunk_address(index)), length_bytes, true);
  });
  return outcome;
}

void drop_live_pages(const Region& region, uint32_t index) {
  region.for_each_live_run(index, [](std::byte* address, uint64_t length_bytes) {
    kernel::madvise(address, length_bytes, MADV_DONTNEED);
  });
}

Result<std::unique_ptr<Mapper>> choose_mapper(std::string_view name, Userfaultfd& uffd) {
  WP_ASSERT(name == "auto" || name == "move" || name == "copy");
  if (name != "copy") {
    auto mapper = make_move_mapper(uffd);
    errno = ENOTTY;  // what a kernel before 6.8 answers
    auto works = uffd.has_move() ? probe(*mapper, uffd)
                                 : Status(fail("the mapper 'move' needs UFFDIO_MOVE, which this "
                                               "kernel lacks (Linux 6.8 has it)",
                                               "use --mapper auto, which takes what works"));
    if (works) return mapper;
    if (name == "move") return forward_error(std::move(works));
  }
  auto mapper = make_copy_mapper(uffd);
  if (auto works = probe(*mapper, uffd); !works) return forward_error(std::move(works));
  return mapper;
}

}  // namespace weightpager::window
