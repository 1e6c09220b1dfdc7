#include "pager/window/page_map.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {
namespace {

constexpr uint64_t present_bit = uint64_t{1} << 63;
constexpr uint64_t swapped_bit = uint64_t{1} << 62;
constexpr uint64_t file_or_shared_bit = uint64_t{1} << 61;

bool is_own_copy(uint64_t entry) {
  return (entry & (present_bit | swapped_bit)) != 0 && (entry & file_or_shared_bit) == 0;
}

// Calls `act(page's address, its entry)` for each page of the range.
template <typename Act>
void for_each_entry(const OwnedFd& file, std::byte* address, uint64_t length_bytes, Act act) {
  std::array<uint64_t, 512> entries;
  const uint64_t pages = length_bytes / os_page_bytes;
  const uint64_t first = reinterpret_cast<uintptr_t>(address) / os_page_bytes;
  for (uint64_t done = 0; done < pages;) {
    const uint64_t count = std::min<uint64_t>(pages - done, entries.size());
    entries.fill(0);
    kernel::pread(file.get(), entries.data(), count * sizeof(uint64_t),
                  static_cast<off_t>((first + done) * sizeof(uint64_t)));
    for (uint64_t i = 0; i < count; ++i) act(address + (done + i) * os_page_bytes, entries[i]);
    done += count;
  }
}

}  // namespace

PageMap::PageMap() : file_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

void PageMap::for_each_written_run(std::byte* address, uint64_t length_bytes,
                                   const Act& act) const {
  for_each_run(address, length_bytes, true, act);
}

void PageMap::for_each_unwritten_run(std::byte* address, uint64_t length_bytes,
                                     const Act& act) const {
  for_each_run(address, length_bytes, false, act);
}

void PageMap::for_each_run(std::byte* address, uint64_t length_bytes, bool is_written,
                           const Act& act) const {
  std::byte* begin = nullptr;
  for_each_entry(file_, address, length_bytes, [&](std::byte* page, uint64_t entry) {
    if (is_own_copy(entry) == is_written) {
      if (begin == nullptr) begin = page;
    } else if (begin != nullptr) {
      act(begin, static_cast<uint64_t>(page - begin));
      begin = nullptr;
    }
  });
  if (begin != nullptr) act(begin, static_cast<uint64_t>(address + length_bytes - begin));
}

void PageMap::residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) const {
  for_each_entry(file_, address, length_bytes, [&](const std::byte* page, uint64_t entry) {
    pages[static_cast<uint64_t>(page - address) / os_page_bytes] =
        (entry & present_bit) != 0 ? 1 : 0;
  });
}

void let_children_inherit_written(const Region& region, uint32_t index, const PageMap& page_map,
                                  const PageMap::Act& act) {
  if (!region.extent().is_writable) return;
  const auto let_inherit = [&](std::byte* address, uint64_t length_bytes) {
    page_map.for_each_written_run(address, length_bytes, [&](std::byte* run, uint64_t run_bytes) {
      kernel::madvise(run, run_bytes, MADV_DOFORK);
      act(run, run_bytes);
    });
  };
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    kernel::madvise(address, length_bytes, MADV_DONTFORK);
    let_inherit(address, length_bytes);
  });
  region.for_each_run(index, region.sealed_pages(index), let_inherit);
}

void seal_unwritten(const Region& region, uintptr_t begin, uintptr_t end, const PageMap& page_map) {
  region.for_each_live_run_in(begin, end, [&](std::byte* address, uint64_t length_bytes) {
    if (region.extent().is_writable) {
      page_map.for_each_unwritten_run(address, length_bytes, Region::seal);
    } else {
      Region::seal(address, length_bytes);
    }
    region.space().uffd().wake(address, length_bytes);
  });
}

bool take_out_unwritten(const Region& region, uint32_t index, const PageMap& page_map) {
  fault::Userfaultfd& uffd = region.space().uffd();
  if (!uffd.can_hold_writes()) return false;
  bool is_out = true;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    is_out = is_out && uffd.hold_writes(address, length_bytes).has_value();
    if (!is_out) return;
    page_map.for_each_unwritten_run(address, length_bytes, [](std::byte* run, uint64_t run_bytes) {
      kernel::madvise(run, run_bytes, MADV_DONTNEED);
    });
    uffd.release_writes(address, length_bytes);
  });
  return is_out;
}

void give_up_written(const Region& region, uintptr_t begin, uintptr_t end) {
  region.for_each_live_run_in(begin, end, [](std::byte* address, uint64_t length_bytes) {
    kernel::madvise(address, length_bytes, MADV_DONTNEED);
  });
  region.for_each_sealed_run_in(begin, end, Region::seal);
}

}  // namespace weightpager::window
