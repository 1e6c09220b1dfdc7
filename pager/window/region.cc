#include "pager/window/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/own_limits.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/window/page_size.h"

namespace weightpager::window {
namespace {

// Reserves `length_bytes` that begin `phase_bytes` behind a border of the 2 MiB grid.
std::byte* reserve_on_grid(uint64_t length_bytes, uint64_t phase_bytes) {
  const uint64_t whole = length_bytes + 2 * huge_page_bytes;
  void* got = kernel::mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(got);
  auto* grid =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(start), huge_page_bytes));
  std::byte* address = grid + phase_bytes;
  std::byte* end = address + length_bytes;
  if (address > start) kernel::munmap(start, static_cast<size_t>(address - start));
  if (end < start + whole) kernel::munmap(end, static_cast<size_t>(start + whole - end));
  return address;
}

}  // namespace

PageSet page_range(uint64_t first, uint64_t end) {
  PageSet pages;
  for (uint64_t page = first; page < end; ++page) pages.set(page);
  return pages;
}

Region::Region(const Extent& extent, uint64_t chunk_bytes, AddressSpace& space, std::byte* address)
    : extent_(extent),
      chunk_bytes_(chunk_bytes),
      space_(&space),
      grid_(address - extent.offset_bytes % chunk_bytes),
      address_(address),
      length_bytes_(round_up(extent.length_bytes, os_page_bytes)) {
  WP_ASSERT(extent.offset_bytes % os_page_bytes == 0 && extent.length_bytes > 0);
  const uint64_t phase = extent.offset_bytes % chunk_bytes;
  const uint64_t file_left = extent.file_size_bytes > extent.offset_bytes
                                 ? extent.file_size_bytes - extent.offset_bytes
                                 : 0;
  live_bytes_ = std::min(length_bytes_, round_up(file_left, os_page_bytes));
  chunks_ = static_cast<uint32_t>(round_up(phase + live_bytes_, chunk_bytes) / chunk_bytes);
  live_chunks_ = chunks_;
  notes_.resize(chunks_);
  note_edges();
}

// Notes the first and the last chunk as edges, where the region shows only a part of them.
void Region::note_edges() {
  if (chunks_ == 0) return;
  const uint64_t first_page = static_cast<uint64_t>(address_ - grid_) / os_page_bytes;
  const uint64_t end_page = first_page + live_bytes_ / os_page_bytes;
  for (uint32_t index : {0u, chunks_ - 1}) {
    const uint64_t chunk_page = index * pages_per_chunk();
    const uint64_t begin = std::max(first_page, chunk_page);
    const uint64_t end = std::min(end_page, chunk_page + pages_per_chunk());
    if (end - begin == pages_per_chunk()) continue;
    edges_[index] = page_range(begin - chunk_page, end - chunk_page);
  }
}

std::unique_ptr<Region> Region::of_guest(const Extent& extent, uint64_t chunk_bytes,
                                         AddressSpace& space, std::byte* address) {
  return std::unique_ptr<Region>(new Region(extent, chunk_bytes, space, address));
}

Result<std::unique_ptr<Region>> Region::reserve(const Extent& extent, uint64_t chunk_bytes,
                                                AddressSpace& space, int memory_fd, int sharing) {
  const uint64_t length_bytes = round_up(extent.length_bytes, os_page_bytes);
  std::byte* const address = reserve_on_grid(length_bytes, extent.offset_bytes % huge_page_bytes);
  if (address == nullptr) {
    return fail("reserving " + format_size(length_bytes) +
                    " of address space for a model: " + std::strerror(errno),
                address_limit_hint(), errno);
  }
  std::unique_ptr<Region> it(new Region(extent, chunk_bytes, space, address));
  if (it->live_bytes_ < length_bytes) {
    seal(address + it->live_bytes_, length_bytes - it->live_bytes_);
  }
  if (it->live_bytes_ == 0) return it;
  if (memory_fd != no_memory) {
    if (!extent.is_writable) it->protection_ = PROT_READ;
    if (kernel::mmap(address, it->live_bytes_, it->protection_,
                     (extent.is_writable ? MAP_PRIVATE : sharing) | MAP_FIXED | MAP_NORESERVE,
                     memory_fd, static_cast<off_t>(extent.offset_bytes)) == MAP_FAILED) {
      return fail("mapping " + format_size(it->live_bytes_) +
                      " of shared memory for a model: " + std::strerror(errno),
                  "raise vm.max_map_count and `ulimit -v`", errno);
    }
  } else if (!extent.is_writable || chunk_bytes < huge_page_bytes) {
    // Pages of a writable region are copied in one by one; a huge page would only be split again.
    advise_page_size(address, it->live_bytes_, chunk_bytes);
  }
  kernel::keep_to_process(address, it->live_bytes_);
  // In a private view the kernel itself knows which pages were written, and dumps only those.
  const bool is_private_view = memory_fd != no_memory && extent.is_writable;
  if (is_private_view) kernel::madvise(address, it->live_bytes_, MADV_DODUMP);
  return it;
}

Region::~Region() {
  if (address_ != nullptr && space_->is_own()) kernel::munmap(address_, length_bytes_);
}

// Those pages of a chunk that the region began with.
PageSet Region::all_pages(uint32_t index) const {
  const std::byte* begin = std::max(chunk_address(index), address_);
  const std::byte* end = std::min(chunk_address(index) + chunk_bytes_, address_ + live_bytes_);
  const auto page_of = [&](const std::byte* at) {
    return static_cast<uint64_t>(at - chunk_address(index)) / os_page_bytes;
  };
  return page_range(page_of(begin), page_of(end));
}

PageSet Region::written_pages(uint32_t index) const {
  const PageSet* live = edge(index);
  if (live == nullptr) return {};
  PageSet pages = all_pages(index) & ~*live;
  for (const auto* gone : {&sealed_, &unmapped_}) {
    const auto found = gone->find(index);
    if (found != gone->end()) pages &= ~found->second;
  }
  return pages;
}

PageSet Region::sealed_pages(uint32_t index) const {
  const auto sealed = sealed_.find(index);
  if (sealed == sealed_.end()) return {};
  const auto unmapped = unmapped_.find(index);
  return unmapped == unmapped_.end() ? sealed->second : sealed->second & ~unmapped->second;
}

const PageSet* Region::edge(uint32_t index) const {
  const auto found = edges_.find(index);
  return found == edges_.end() ? nullptr : &found->second;
}

bool Region::is_live_at(uintptr_t address) const {
  const uint32_t index = chunk_index(address);
  if (index >= chunks_) return false;
  const PageSet* pages = edge(index);
  return pages == nullptr || pages->test(address % chunk_bytes_ / os_page_bytes);
}

bool Region::drop_pages(uint32_t index, uint32_t first, uint32_t count) {
  const bool was_live = is_live(index);
  PageSet& pages = edges_.try_emplace(index, page_range(0, pages_per_chunk())).first->second;
  pages &= ~page_range(first, first + count);
  if (was_live && pages.none()) --live_chunks_;
  return pages.none();
}

bool Region::drop_sealed_pages(uint32_t index, uint32_t first, uint32_t count) {
  const PageSet range = page_range(first, first + count);
  const PageSet* live = edge(index);
  sealed_[index] |= live == nullptr ? range : range & *live;
  notes_[index].is_sealed = true;
  return drop_pages(index, first, count);
}

bool Region::drop_unmapped_pages(uint32_t index, uint32_t first, uint32_t count) {
  unmapped_[index] |= page_range(first, first + count);
  const bool is_gone = drop_pages(index, first, count);
  Notes& notes = notes_[index];
  notes.is_written = notes.is_written && written_pages(index).any();
  notes.is_sealed = notes.is_sealed && sealed_pages(index).any();
  return is_gone;
}

void Region::restore_pages(uint32_t index, const PageSet& pages) {
  const auto found = edges_.find(index);
  WP_ASSERT(found != edges_.end());
  if (found->second.none()) ++live_chunks_;
  found->second |= pages;
  if (found->second.count() == pages_per_chunk()) edges_.erase(found);
}

bool Region::is_in_use() const {
  return live_chunks_ > 0 || std::any_of(notes_.begin(), notes_.end(), [](const Notes& notes) {
           return notes.is_written || notes.is_sealed;
         });
}

void Region::set_accessible(const Span& part, bool is_accessible) const {
  auto* const address = reinterpret_cast<void*>(part.begin);
  kernel::mprotect(address, part.length_bytes(), is_accessible ? protection_ : PROT_NONE);
  space_->uffd().wake(address, part.length_bytes());
}

void Region::seal(void* address, uint64_t length_bytes) {
  // Every page of an empty file lies beyond its end, so a touch of it raises SIGBUS.
  const int empty = memfd_create("weightpager-unreadable", MFD_CLOEXEC);
  void* got = MAP_FAILED;
  if (empty >= 0) {
    got = kernel::mmap(address, length_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, empty, 0);
    ::close(empty);
  }
  kernel::madvise(address, length_bytes, MADV_DONTDUMP);
  // Out of descriptors or mappings: no access at all is the next best refusal.
  if (got != MAP_FAILED || kernel::mprotect(address, length_bytes, PROT_NONE) == 0) return;
  end_refused("mprotect", errno);
}

}  // namespace weightpager::window
