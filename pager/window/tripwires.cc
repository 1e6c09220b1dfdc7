#include "pager/window/tripwires.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {

using fault::Outcome;

namespace {

// More than the experts that a layer uses for one token.
constexpr size_t leaving_max = 64;

}  // namespace

// Without memory for saved pages there are no tripwires: chunks are then moved as a whole.
Tripwires::Tripwires(uint32_t count_max) : pages_bytes_(uint64_t{count_max} * os_page_bytes) {
  void* const pages = kernel::mmap(nullptr, pages_bytes_, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  pages_ = static_cast<std::byte*>(pages);
  kernel::keep_to_process(pages_, pages_bytes_);
  kernel::madvise(pages_, pages_bytes_, MADV_NOHUGEPAGE);
  // The last one is taken first: the same few pages are used again and again.
  free_.reserve(count_max);
  for (uint32_t number = count_max; number-- > 0;) free_.push_back(number);
  leaving_.reserve(leaving_max);
  process_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
}

Tripwires::~Tripwires() {
  if (pages_ != nullptr) kernel::munmap(pages_, pages_bytes_);
}

bool Tripwires::set(Region& region, uint32_t index) {
  WP_ASSERT(region.notes(index).is_placed && !is_set(region, index));
  if (free_.empty()) return false;
  if (leaving_.size() == leaving_max) hand_over();
  std::byte* const page = region.chunk_address(index);
  std::memcpy(saved(free_.back()), page, os_page_bytes);
  leaving_.push_back({page, os_page_bytes});
  region.notes(index).tripwire = free_.back();
  free_.pop_back();
  return true;
}

void Tripwires::hand_over() {
  if (leaving_.empty()) return;
  const ssize_t done_bytes = leaving_.size() == 1
                                 ? 0
                                 : syscall(SYS_process_madvise, process_.get(), leaving_.data(),
                                           leaving_.size(), MADV_DONTNEED, 0);
  // Kernels before 6.13 refuse this advice in process_madvise, and every kernel stops at a page
  // that cannot go.
  const size_t done = done_bytes < 0 ? 0 : static_cast<size_t>(done_bytes) / os_page_bytes;
  for (size_t i = done; i < leaving_.size(); ++i) {
    kernel::madvise(leaving_[i].iov_base, os_page_bytes, MADV_DONTNEED);
  }
  leaving_.clear();
}

Outcome Tripwires::take_back(Region& region, uint32_t index) {
  uint32_t& number = region.notes(index).tripwire;
  WP_ASSERT(number != Region::Notes::no_tripwire);
  hand_over();
  const Outcome outcome =
      region.space().uffd().copy(region.chunk_address(index), saved(number), os_page_bytes, true);
  if (outcome != Outcome::done) return outcome;
  free_.push_back(number);
  number = Region::Notes::no_tripwire;
  return Outcome::done;
}

}  // namespace weightpager::window
