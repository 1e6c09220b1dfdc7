#include "pager/window/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"

namespace weightpager::window {
namespace {

// Reserves `length_bytes` such that the byte `phase_bytes` into a 2 MiB grid cell is the first one.
std::byte* reserve_on_grid(uint64_t length_bytes, uint64_t phase_bytes) {
  const uint64_t whole = length_bytes + 2 * chunk_bytes;
  void* got = kernel::mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(got);
  auto* grid =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(start), chunk_bytes));
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

Result<std::unique_ptr<Region>> Region::reserve(const Extent& extent) {
  WP_ASSERT(extent.offset_bytes % os_page_bytes == 0 && extent.length_bytes > 0);
  std::unique_ptr<Region> it(new Region);
  const uint64_t phase = extent.offset_bytes % chunk_bytes;
  it->extent_ = extent;
  it->length_bytes_ = round_up(extent.length_bytes, os_page_bytes);
  it->address_ = reserve_on_grid(it->length_bytes_, phase);
  if (it->address_ == nullptr) {
    return fail("reserving " + format_size(it->length_bytes_) +
                    " of address space for a model: " + std::strerror(errno),
                "raise the address space limit (ulimit -v)", errno);
  }
  it->grid_ = it->address_ - phase;
  const uint64_t file_left = extent.file_size_bytes > extent.offset_bytes
                                 ? extent.file_size_bytes - extent.offset_bytes
                                 : 0;
  it->live_bytes_ = std::min(it->length_bytes_, round_up(file_left, os_page_bytes));
  it->chunks_ = static_cast<uint32_t>(round_up(phase + it->live_bytes_, chunk_bytes) / chunk_bytes);
  if (it->live_bytes_ < it->length_bytes_) {
    seal(it->address_ + it->live_bytes_, it->length_bytes_ - it->live_bytes_);
  }
  it->live_chunks_ = it->chunks_;
  it->notes_.resize(it->chunks_);
  // Pages of a writable region are copied in one by one; a huge page would only be split again.
  if (!extent.is_writable) kernel::madvise(it->address_, it->live_bytes_, MADV_HUGEPAGE);
  kernel::madvise(it->address_, it->live_bytes_, MADV_DONTFORK);

  const uint64_t first_page = phase / os_page_bytes;
  const uint64_t end_page = (phase + it->live_bytes_) / os_page_bytes;
  for (uint32_t index : {0u, it->chunks_ == 0 ? 0u : it->chunks_ - 1}) {
    const uint64_t begin = std::max(first_page, index * pages_per_chunk);
    const uint64_t end = std::min(end_page, (index + 1) * pages_per_chunk);
    if (end - begin == pages_per_chunk || it->chunks_ == 0) continue;
    it->edges_[index] = page_range(begin - index * pages_per_chunk, end - index * pages_per_chunk);
  }
  return it;
}

Region::~Region() {
  if (address_ != nullptr) kernel::munmap(address_, length_bytes_);
}

uint64_t Region::chunk_file_bytes(uint32_t index) const {
  const uint64_t offset = chunk_file_offset(index);
  return std::min(chunk_bytes, extent_.file_size_bytes - offset);
}

// Of a chunk, those that the region began with.
PageSet Region::all_pages(uint32_t index) const {
  const std::byte* begin = std::max(chunk_address(index), address_);
  const std::byte* end = std::min(chunk_address(index) + chunk_bytes, address_ + live_bytes_);
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

const PageSet* Region::edge(uint32_t index) const {
  const auto found = edges_.find(index);
  return found == edges_.end() ? nullptr : &found->second;
}

bool Region::is_live_at(uintptr_t address) const {
  const uint32_t index = chunk_index(address);
  if (index >= chunks_) return false;
  const PageSet* pages = edge(index);
  return pages == nullptr || pages->test(address % chunk_bytes / os_page_bytes);
}

bool Region::drop_pages(uint32_t index, uint32_t first, uint32_t count) {
  const bool was_live = is_live(index);
  PageSet all;
  PageSet& pages = edges_.try_emplace(index, all.set()).first->second;
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
  PageSet& unmapped = unmapped_[index];
  unmapped |= page_range(first, first + count);
  const bool is_gone = drop_pages(index, first, count);
  Notes& notes = notes_[index];
  notes.is_written = notes.is_written && written_pages(index).any();
  notes.is_sealed = notes.is_sealed && (sealed_[index] & ~unmapped).any();
  return is_gone;
}

void Region::restore_pages(uint32_t index, const PageSet& pages) {
  const auto found = edges_.find(index);
  WP_ASSERT(found != edges_.end());
  if (found->second.none()) ++live_chunks_;
  found->second |= pages;
  if (found->second.all()) edges_.erase(found);
}

bool Region::is_in_use() const {
  return live_chunks_ > 0 || std::any_of(notes_.begin(), notes_.end(), [](const Notes& notes) {
           return notes.is_written || notes.is_sealed;
         });
}

void Region::seal(void* address, uint64_t length_bytes) {
  // Every page of an empty file lies beyond its end, which is what SIGBUS is for.
  const int empty = memfd_create("weightpager-unreadable", MFD_CLOEXEC);
  void* got = MAP_FAILED;
  if (empty >= 0) {
    got = kernel::mmap(address, length_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, empty, 0);
    ::close(empty);
  }
  // Out of descriptors or mappings: no access at all is the next best refusal.
  if (got == MAP_FAILED) WP_ASSERT(kernel::mprotect(address, length_bytes, PROT_NONE) == 0);
}

}  // namespace weightpager::window
