#include "pager/fault/doorbell.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"

namespace weightpager::fault {

Doorbell::~Doorbell() {
  if (base_ != nullptr) kernel::munmap(base_, length_bytes);
}

Status Doorbell::hang(Userfaultfd& uffd) {
  void* got = kernel::mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) {
    return fail(std::string("reserving the doorbell's pages: ") + std::strerror(errno), "", errno);
  }
  base_ = static_cast<std::byte*>(got);
  kernel::madvise(base_, length_bytes, MADV_NOHUGEPAGE);
  kernel::keep_to_process(base_, length_bytes);
  // The pages have to go again, or the bell falls silent.
  if (kernel::madvise(base_, length_bytes, MADV_DONTNEED) != 0) {
    return fail(std::string("madvise is refused: ") + std::strerror(errno),
                "allow madvise in the container's seccomp profile", errno);
  }
  return uffd.register_range(base_, length_bytes);
}

void Doorbell::ring() {
  const uint32_t page = rings_.fetch_add(1, std::memory_order_seq_cst) % pages;
  (void)*reinterpret_cast<volatile char*>(base_ + page * os_page_bytes);
}

void Doorbell::answer(const Userfaultfd& uffd, uintptr_t address) {
  const auto page =
      static_cast<uint32_t>((address - reinterpret_cast<uintptr_t>(base_)) / os_page_bytes);
  std::byte* const next = base_ + (page + pages / 2) % pages * os_page_bytes;
  const bool is_gone = kernel::madvise(next, os_page_bytes, MADV_DONTNEED) == 0;
  if (!is_gone && is_refusal(errno)) end_refused("madvise", errno);
  std::byte* rung = base_ + page * os_page_bytes;
  // Without memory for a page table the toucher tries again.
  if (uffd.zero(rung, os_page_bytes) != Outcome::done) uffd.wake(rung, os_page_bytes);
}

}  // namespace weightpager::fault
