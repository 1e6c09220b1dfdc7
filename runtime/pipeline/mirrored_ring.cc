#include "runtime/pipeline/mirrored_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/owned_fd.h"
#include "pager/base/units.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace weightpager::pipeline {
namespace {

auto refused(uint64_t capacity_bytes) {
  const int error_number = errno;
  return fail(fmt::format("no memory for a ring of {}: {}", format_size(capacity_bytes),
                          std::strerror(error_number)),
              smaller_window, error_number);
}

uint64_t reservation_bytes(uint64_t capacity_bytes) { return 2 * capacity_bytes + huge_page_bytes; }

}  // namespace

Result<MirroredRing> MirroredRing::make(uint64_t capacity_bytes) {
  WP_ASSERT(capacity_bytes % os_page_bytes == 0);
  MirroredRing ring;
  if (capacity_bytes == 0) return ring;
  const OwnedFd memory(memfd_create("weightpager ring", MFD_CLOEXEC));
  if (!memory.is_open() || ftruncate(memory.get(), static_cast<off_t>(capacity_bytes)) != 0) {
    return refused(capacity_bytes);
  }
  // One reservation for both mappings, so that nothing else is mapped between them.
  void* const reservation = mmap(nullptr, reservation_bytes(capacity_bytes), PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reservation == MAP_FAILED) return refused(capacity_bytes);
  ring.reservation_ = static_cast<std::byte*>(reservation);
  ring.base_ = reinterpret_cast<std::byte*>(
      round_up(reinterpret_cast<uintptr_t>(reservation), huge_page_bytes));
  ring.capacity_bytes_ = capacity_bytes;
  constexpr int protection = PROT_READ | PROT_WRITE;
  // Takes all memory now: if some is missing, that is an error here and not a SIGBUS within a
  // layer.
  const bool is_there =
      fallocate(memory.get(), 0, 0, static_cast<off_t>(capacity_bytes)) == 0 &&
      mmap(ring.base_, capacity_bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
           memory.get(), 0) != MAP_FAILED &&
      mmap(ring.base_ + capacity_bytes, capacity_bytes, protection, MAP_SHARED | MAP_FIXED,
           memory.get(), 0) != MAP_FAILED;
  if (!is_there) return refused(capacity_bytes);
  // A core dump would contain the weights twice, and their file has them anyway.
  madvise(ring.base_, 2 * capacity_bytes, MADV_DONTDUMP);
  // One call for each huge page: if there is no contiguous memory for one, the others are still
  // made.
  for (uint64_t at = 0; at + huge_page_bytes <= capacity_bytes; at += huge_page_bytes) {
    madvise(ring.base_ + at, huge_page_bytes, MADV_COLLAPSE);
  }
  return ring;
}

MirroredRing::~MirroredRing() {
  if (reservation_ != nullptr) munmap(reservation_, reservation_bytes(capacity_bytes_));
}

void MirroredRing::forget_mirror(uint64_t offset_bytes, uint64_t length_bytes) const {
  const uint64_t end_bytes = round_up(offset_bytes + length_bytes, os_page_bytes);
  const uint64_t kept_end_bytes = capacity_bytes_ + mirror_kept_bytes;
  if (end_bytes <= kept_end_bytes) return;
  madvise(base_ + kept_end_bytes, end_bytes - kept_end_bytes, MADV_DONTNEED);
}

}  // namespace weightpager::pipeline
