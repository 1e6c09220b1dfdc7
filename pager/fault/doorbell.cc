#include "pager/fault/doorbell.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

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
  return uffd.register_range(base_, length_bytes);
}

void Doorbell::ring() {
  const uint32_t page = rings_.fetch_add(1, std::memory_order_seq_cst) % pages;
  (void)*reinterpret_cast<volatile char*>(base_ + page * os_page_bytes);
}

void Doorbell::answer(const Userfaultfd& uffd, uintptr_t address) {
  const auto page =
      static_cast<uint32_t>((address - reinterpret_cast<uintptr_t>(base_)) / os_page_bytes);
  kernel::madvise(base_ + (page + pages / 2) % pages * os_page_bytes, os_page_bytes, MADV_DONTNEED);
  std::byte* rung = base_ + page * os_page_bytes;
  // Without memory for a page table the toucher tries again.
  if (uffd.zero(rung, os_page_bytes) != Outcome::done) uffd.wake(rung, os_page_bytes);
}

}  // namespace weightpager::fault
