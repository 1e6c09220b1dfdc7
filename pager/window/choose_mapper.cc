// Which mapper is used: the one that was asked for, or the best one that works here.
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "pager/base/assert.h"
#include "pager/window/backing_memory.h"
#include "pager/window/memory_file.h"
#include "pager/window/module_memory.h"
#include "pager/window/module_window.h"
#include "pager/window/moved_memory.h"
#include "pager/window/shared_memory.h"
#include "pager/window/slot_memory.h"

namespace weightpager::window {
namespace {

Status probe(std::string_view name, AddressSpace& space, uint64_t chunk_bytes) {
  if (name == "move") return MovedMemory::probe(space, chunk_bytes);
  if (name == "collapse") return SharedMemory::probe(space, chunk_bytes);
  if (name == "module") return ModuleMemory::probe(space, chunk_bytes);
  return CopiedMemory::probe(space, chunk_bytes);
}

Result<std::string_view> probed(std::string_view name, AddressSpace& space, uint64_t chunk_bytes,
                                bool spills) {
  auto works = probe(name, space, chunk_bytes);
  // Views go together with moved memory (mixed_memory.h).
  const bool needs_move = spills && (name == "collapse" || name == "module");
  if (works && needs_move) works = probe("move", space, chunk_bytes);
  if (!works) return forward_error(std::move(works));
  return name;
}

// Shared memory of small pages costs more than copying.
bool is_shared_memory_cheap(uint64_t chunk_bytes) {
  const auto memory = MemoryFile::create(chunk_bytes, chunk_bytes);
  return memory && (*memory)->has_huge_pages();
}

}  // namespace

bool is_mapper_name(std::string_view name) {
  return std::find(mapper_names.begin(), mapper_names.end(), name) != mapper_names.end();
}

const char* shared_mapper_name() {
  return ::access(module_device_path, R_OK | W_OK) == 0 ? "module" : "collapse";
}

Result<std::string_view> choose_mapper(std::string_view name, AddressSpace& space,
                                       uint64_t chunk_bytes, bool expects_writable, bool spills) {
  WP_ASSERT(is_mapper_name(name));
  if (name != "auto") {
    return probed(*std::find(mapper_names.begin(), mapper_names.end(), name), space, chunk_bytes,
                  spills);
  }
  std::vector<const char*> best_first = {"move"};
  if (is_shared_memory_cheap(chunk_bytes)) {
    best_first.insert(best_first.begin() + (expects_writable ? 0 : 1), "collapse");
  }
  best_first.insert(best_first.begin(), "module");
  for (const char* candidate : best_first) {
    if (auto works = probed(candidate, space, chunk_bytes, spills)) return works;
  }
  return probed("copy", space, chunk_bytes, spills);
}

}  // namespace weightpager::window
