#include "pager/loop/withdrawal.h"

#include <sys/mman.h>

#include <cstring>

#include "pager/base/system_calls.h"

namespace weightpager {

using policy::ChunkId;
using window::ChunkState;
using window::Region;

// Calls `act(served, region, index)` for each chunk of spilled memory that has a part of the range.
template <typename Act>
void Withdrawal::for_each_chunk_in(const std::byte* address, uint64_t length_bytes, Act act) const {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (const ServedRegion& it : parts_.files.regions()) {
    if (!it.served->is_spilled()) continue;
    it.region->for_each_piece(begin, begin + length_bytes, [&](uint32_t index, uint32_t, uint32_t) {
      if (it.region->is_live(index)) act(*it.served, *it.region, index);
    });
  }
}

bool Withdrawal::withhold(std::byte* address, uint64_t length_bytes, int rights) {
  const int left = (PROT_READ | PROT_WRITE) & ~rights;
  if (kernel::mprotect(address, length_bytes, left) != 0) {
    // The kernel may have done a part of it.
    for_each_chunk_in(address, length_bytes, [](ServedFile&, Region& region, uint32_t index) {
      const int before = (PROT_READ | PROT_WRITE) & ~region.notes(index).withheld;
      kernel::mprotect(region.chunk_address(index), region.chunk_bytes(), before);
    });
    return false;
  }
  for_each_chunk_in(address, length_bytes, [&](ServedFile&, Region& region, uint32_t index) {
    region.notes(index).withheld = static_cast<uint8_t>(rights);
    region.space().uffd().wake(region.chunk_address(index), region.chunk_bytes());
  });
  return true;
}

// The bytes of a chunk that is not absent are in its slot afterwards.
Withdrawn Withdrawal::take_out(ServedFile& served, ChunkId chunk) {
  const bool is_zero = served.spilled->home(chunk - served.first_chunk) == spill::Home::zeros;
  switch (parts_.table.state(chunk)) {
    case ChunkState::absent:
      return is_zero ? Withdrawn::done : Withdrawn::is_absent;
    case ChunkState::mapped:
      return spilling_.hide(served, chunk) ? Withdrawn::done : Withdrawn::is_busy;
    case ChunkState::ready:
      return Withdrawn::done;
    case ChunkState::reading:
    case ChunkState::leaving:
    case ChunkState::failed:
      break;
  }
  return Withdrawn::is_busy;
}

Withdrawn Withdrawal::withdraw(const window::AddressSpace& own, std::byte* address,
                               uint64_t length_bytes, std::byte* replacement) {
  Withdrawn outcome = Withdrawn::done;
  for_each_chunk_in(address, length_bytes, [&](ServedFile& served, Region& region, uint32_t index) {
    if (outcome == Withdrawn::done) outcome = take_out(served, served.chunk_of(region, index));
  });
  if (outcome != Withdrawn::done) return outcome;
  for_each_chunk_in(address, length_bytes, [&](ServedFile& served, Region& region, uint32_t index) {
    const ChunkId chunk = served.chunk_of(region, index);
    if (parts_.table.state(chunk) == ChunkState::ready) {
      std::memcpy(replacement + (region.chunk_address(index) - address),
                  parts_.memory.backing().bytes_of(served, chunk), region.chunk_bytes());
    }
    spilling_.give_up(served, chunk);
    region.notes(index).withheld = 0;
  });
  regions_.remove(own, address, length_bytes, replacement);
  return outcome;
}

}  // namespace weightpager
