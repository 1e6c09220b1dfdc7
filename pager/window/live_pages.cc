#include "pager/window/live_pages.h"

#include <sys/mman.h>

#include <cerrno>

#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {

using fault::Outcome;
using fault::Userfaultfd;

namespace {

// The kernel moves nothing out of a mapping that is not writable.
void allow_writing(Region& region, uint32_t index) {
  Region::Notes& notes = region.notes(index);
  if (!notes.is_write_refused) return;
  kernel::mprotect(region.chunk_address(index), region.chunk_bytes(), PROT_READ | PROT_WRITE);
  notes.is_write_refused = false;
}

}  // namespace

Outcome move_in(Region& region, ChunkRun run, std::byte* slots) {
  const Userfaultfd& uffd = region.space().uffd();
  std::byte* const chunks = region.chunk_address(run.index);
  const uint64_t length_bytes = run.count * region.chunk_bytes();
  const Outcome outcome = uffd.move(chunks, slots, length_bytes);
  if (outcome != Outcome::done) return outcome;
  // Waiting threads go on only when the pages are protected, because one of them may be about to
  // write.
  if (!region.extent().is_spilled) uffd.protect(chunks, length_bytes, true);
  bool is_waited_for = false;
  for (uint32_t i = 0; i < run.count; ++i) {
    is_waited_for = is_waited_for || region.notes(run.index + i).is_waited_for;
  }
  if (is_waited_for) uffd.wake(chunks, length_bytes);
  return Outcome::done;
}

Outcome move_out(Region& region, ChunkRun run, std::byte* slots) {
  for (uint32_t i = 0; i < run.count; ++i) allow_writing(region, run.index + i);
  return region.space().uffd().move(slots, region.chunk_address(run.index),
                                    run.count * region.chunk_bytes());
}

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

Outcome show_huge_page(const Region& region, uint32_t index) {
  const AddressSpace& space = region.space();
  std::byte* const chunk = region.chunk_address(index);
  const bool is_whole = region.edge(index) == nullptr;
  if (!is_whole || !space.show_huge(chunk, huge_page_bytes)) return show_live_pages(region, index);
  space.uffd().wake(chunk, huge_page_bytes);
  return Outcome::done;
}

void drop_live_pages(const Region& region, uint32_t index) {
  region.for_each_live_run(index, [](std::byte* address, uint64_t length_bytes) {
    const bool is_done = kernel::madvise(address, length_bytes, MADV_DONTNEED) == 0;
    // Without this advice the window would only grow.
    if (!is_done && is_refusal(errno)) end_refused("madvise", errno);
  });
}

void wake_live_pages(const Region& region, uint32_t index) {
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    region.space().uffd().wake(address, length_bytes);
  });
}

}  // namespace weightpager::window
