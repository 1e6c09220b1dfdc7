// Memory like that of the window's slots: on the 2 MiB grid, advised to be huge pages, populated.
//
// Probes use it to see whether huge pages really come, and to read into the kind of memory that a
// run reads into. A kernel that promises huge pages may still give small ones (fragmented memory, a
// process that is exempt), so the mapping's own entry in /proc/self/smaps is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pager/base/anonymous_memory.h"
#include "pager/base/result.h"

namespace weightpager::tools {

/// Movable.
class HugeMemory {
 public:
  static Result<HugeMemory> create(uint32_t chunks);

  std::byte* chunk(uint32_t index) const;
  /// How many bytes of it lie in huge pages; 0 if the kernel does not say.
  uint64_t huge_bytes() const;

 private:
  explicit HugeMemory(AnonymousMemory memory) : memory_(std::move(memory)) {}
  AnonymousMemory memory_;  // one huge page larger, to have room for the grid
};

}  // namespace weightpager::tools
