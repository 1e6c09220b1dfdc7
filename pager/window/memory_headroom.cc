#include "pager/window/memory_headroom.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "pager/base/memory_limit.h"
#include "pager/base/units.h"

namespace weightpager::window {
namespace {

// An engine that allocates as fast as memory is handed out takes this much between two looks.
constexpr int64_t headroom_bytes_min = int64_t{24} * MiB;
// Far above, or a window that has just shrunk would grow again at once.
constexpr int64_t headroom_bytes_ample = int64_t{96} * MiB;
constexpr uint32_t chunks_min = 16;

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

}  // namespace

MemoryHeadroom::MemoryHeadroom(const std::string& root) : root_(root) {
  const MemoryLimit limit = memory_limit(root);
  limit_bytes_ = limit.bytes;
  source_ = limit.source;
  const std::filesystem::path file(source_);
  const bool is_v1 = file.filename() == "memory.limit_in_bytes";
  if (!is_v1 && file.filename() != "memory.max") return;
  const auto folder = file.parent_path();
  usage_path_ = root + (folder / (is_v1 ? "memory.usage_in_bytes" : "memory.current")).string();
  statistics_path_ = root + (folder / "memory.stat").string();
  cache_prefix_ = is_v1 ? "total_" : "";  // v1 counts the groups below under other names
}

std::optional<int64_t> MemoryHeadroom::bytes() const {
  std::ifstream statistics(usage_path_.empty() ? root_ + "/proc/meminfo" : statistics_path_);
  uint64_t cache_bytes = 0;
  std::string key;
  for (uint64_t number = 0; statistics >> key >> number; statistics.ignore(256, '\n')) {
    if (usage_path_.empty() && key == "MemAvailable:") return static_cast<int64_t>(number * KiB);
    const bool is_cache = key == std::string(cache_prefix_) + "inactive_file" ||
                          key == std::string(cache_prefix_) + "active_file";
    if (is_cache) cache_bytes += number;
  }
  if (usage_path_.empty()) return std::nullopt;
  const auto usage_bytes = read_number(usage_path_);
  if (!usage_bytes) return std::nullopt;
  return static_cast<int64_t>(limit_bytes_) -
         static_cast<int64_t>(*usage_bytes - std::min(*usage_bytes, cache_bytes));
}

uint32_t window_chunks_that_fit(uint32_t chunks, uint32_t wanted_chunks, int64_t headroom_bytes) {
  constexpr auto chunk = static_cast<int64_t>(chunk_bytes);
  if (headroom_bytes < headroom_bytes_min) {
    const int64_t missing_bytes = 2 * headroom_bytes_min - headroom_bytes;
    const int64_t left = int64_t{chunks} - (missing_bytes + chunk - 1) / chunk;
    const auto least = std::min(chunks, chunks_min);
    return static_cast<uint32_t>(std::max<int64_t>(left, least));
  }
  if (headroom_bytes <= headroom_bytes_ample) return chunks;
  const int64_t more = (headroom_bytes - headroom_bytes_ample) / 2 / chunk;
  return static_cast<uint32_t>(std::min<int64_t>(wanted_chunks, int64_t{chunks} + more));
}

}  // namespace weightpager::window
