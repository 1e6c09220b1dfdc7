#include "tools/probes/huge_memory.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "pager/base/units.h"

namespace weightpager::tools {
namespace {

/// Whether `line` of smaps begins the entry of the mapping that contains `address`.
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
  const uint64_t length_bytes = uint64_t{chunks} * huge_page_bytes;
  auto memory = AnonymousMemory::make(length_bytes + huge_page_bytes, "buffers",
                                      "close other programs, or raise the address space limit: "
                                      "ulimit -v unlimited");
  if (!memory) return forward_error(std::move(memory));
  HugeMemory huge(std::move(*memory));
  std::memset(huge.chunk(0), 0, length_bytes);
  return huge;
}

std::byte* HugeMemory::chunk(uint32_t index) const {
  const uint64_t first = round_up(reinterpret_cast<uintptr_t>(memory_.at(0)), huge_page_bytes);
  return reinterpret_cast<std::byte*>(first + uint64_t{index} * huge_page_bytes);
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
