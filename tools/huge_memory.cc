#include "tools/huge_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "pager/base/units.h"

namespace weightpager::tools {
namespace {

/// Whether `line` of smaps opens the account of the mapping that has `address`.
bool opens_mapping_of(const std::string& line, uintptr_t address) {
  std::istringstream words(line);
  uintptr_t start = 0;
  uintptr_t end = 0;
  char dash = 0;
  return (words >> std::hex >> start >> dash >> end) && dash == '-' && start <= address &&
         address < end;
}

}  // namespace

Result<HugeMemory> HugeMemory::create(uint32_t chunks) {
  HugeMemory memory;
  memory.reservation_bytes_ = (uint64_t{chunks} + 1) * huge_page_bytes;
  void* const got = ::mmap(nullptr, memory.reservation_bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) {
    const int error = errno;
    return fail("cannot have " + format_size(memory.reservation_bytes_) +
                    " of memory: " + std::strerror(error),
                "raise the address space limit: ulimit -v unlimited", error);
  }
  memory.reservation_ = got;
  const uint64_t length_bytes = uint64_t{chunks} * huge_page_bytes;
  ::madvise(memory.chunk(0), length_bytes, MADV_HUGEPAGE);
  std::memset(memory.chunk(0), 0, length_bytes);
  return memory;
}

HugeMemory::HugeMemory(HugeMemory&& other) noexcept
    : reservation_(std::exchange(other.reservation_, nullptr)),
      reservation_bytes_(other.reservation_bytes_) {}

HugeMemory::~HugeMemory() {
  if (reservation_ != nullptr) ::munmap(reservation_, reservation_bytes_);
}

std::byte* HugeMemory::chunk(uint32_t index) const {
  const auto start = reinterpret_cast<uintptr_t>(reservation_);
  const uint64_t to_grid_bytes = round_up(start, huge_page_bytes) - start;
  return static_cast<std::byte*>(reservation_) + to_grid_bytes + uint64_t{index} * huge_page_bytes;
}

uint64_t HugeMemory::huge_bytes() const {
  const auto address = reinterpret_cast<uintptr_t>(chunk(0));
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  while (std::getline(smaps, line) && !opens_mapping_of(line, address)) continue;
  while (std::getline(smaps, line)) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (words >> key >> kib && key == "AnonHugePages:") return kib * KiB;
  }
  return 0;
}

}  // namespace weightpager::tools
