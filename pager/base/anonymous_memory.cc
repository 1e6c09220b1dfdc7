#include "pager/base/anonymous_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager {

Result<AnonymousMemory> AnonymousMemory::make(uint64_t length_bytes, const std::string& what,
                                              const std::string& hint) {
  AnonymousMemory memory;
  if (length_bytes == 0) return memory;
  void* const address = kernel::mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    const int error_number = errno;
    return fail("no memory for " + what + ", " + format_size(length_bytes) + ": " +
                    std::strerror(error_number),
                hint, error_number);
  }
  memory.address_ = static_cast<std::byte*>(address);
  memory.length_bytes_ = length_bytes;
  // Without huge pages it only takes longer to go through the memory.
  kernel::madvise(address, length_bytes, MADV_HUGEPAGE);
  return memory;
}

AnonymousMemory::~AnonymousMemory() {
  if (address_ != nullptr) kernel::munmap(address_, length_bytes_);
}

}  // namespace weightpager
