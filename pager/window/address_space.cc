#include "pager/window/address_space.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pager/base/system_calls.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace weightpager::window {

bool AddressSpace::show_huge(void* address, uint64_t length_bytes) const {
  if (is_own()) return kernel::madvise(address, length_bytes, MADV_COLLAPSE) == 0;
  if (!process_.is_open()) return false;
  const iovec range{address, length_bytes};
  return syscall(SYS_process_madvise, process_.get(), &range, 1, MADV_COLLAPSE, 0) ==
         static_cast<long>(length_bytes);
}

}  // namespace weightpager::window
