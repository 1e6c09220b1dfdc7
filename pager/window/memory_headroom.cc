#include "pager/window/memory_headroom.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "pager/base/memory_limit.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {
namespace {

// An engine that allocates as fast as memory is handed out takes this much between two looks.
constexpr int64_t headroom_bytes_min = int64_t{24} * MiB;
// Far above the minimum, because otherwise a window that has just shrunk would grow again at once.
constexpr int64_t headroom_bytes_ample = int64_t{96} * MiB;
constexpr uint64_t window_bytes_least = 32 * MiB;

// The longest of these files, memory.stat, has some 60 lines; a line that does not fit is not
// counted, which errs to the side of a smaller window.
constexpr size_t text_bytes_max = 8 * KiB;

OwnedFd open_file(const std::string& path) {
  return OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// The kernel makes the text of such a file anew for each read from its beginning.
std::string_view read_text(const OwnedFd& file, std::array<char, text_bytes_max>& buffer) {
  const ssize_t bytes = kernel::pread(file.get(), buffer.data(), buffer.size(), 0);
  return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0))};
}

std::optional<uint64_t> first_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

/// The number behind `prefix` and `key` at the beginning of a whole line.
std::optional<uint64_t> number_of(std::string_view text, std::string_view prefix,
                                  std::string_view key) {
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    std::string_view line = text.substr(0, end);
    if (line.substr(0, prefix.size()) != prefix) continue;
    line.remove_prefix(prefix.size());
    if (line.substr(0, key.size()) != key) continue;
    line.remove_prefix(key.size());
    if (!line.empty() && line.front() == ' ') return first_number(line);
  }
  return std::nullopt;
}

}  // namespace

MemoryHeadroom::MemoryHeadroom(const std::string& root) {
  const MemoryLimit limit = memory_limit(root);
  limit_bytes_ = limit.bytes;
  source_ = limit.source;
  const std::filesystem::path file(source_);
  const bool is_v1 = file.filename() == "memory.limit_in_bytes";
  if (!is_v1 && file.filename() != "memory.max") {
    statistics_ = open_file(root + "/proc/meminfo");
    return;
  }
  const auto folder = file.parent_path();
  usage_ =
      open_file(root + (folder / (is_v1 ? "memory.usage_in_bytes" : "memory.current")).string());
  statistics_ = open_file(root + (folder / "memory.stat").string());
  cache_prefix_ = is_v1 ? "total_" : "";  // v1 counts the groups below under other names
}

std::optional<int64_t> MemoryHeadroom::bytes() const {
  std::array<char, text_bytes_max> buffer;
  const std::string_view statistics = read_text(statistics_, buffer);
  if (!usage_.is_open()) {
    const auto available_kib = number_of(statistics, "", "MemAvailable:");
    if (!available_kib) return std::nullopt;
    return static_cast<int64_t>(*available_kib * KiB);
  }
  uint64_t cache_bytes = 0;
  for (const char* list : {"inactive_file", "active_file"}) {
    cache_bytes += number_of(statistics, cache_prefix_, list).value_or(0);
  }
  const auto usage_bytes = first_number(read_text(usage_, buffer));
  if (!usage_bytes) return std::nullopt;
  return static_cast<int64_t>(limit_bytes_) -
         static_cast<int64_t>(*usage_bytes - std::min(*usage_bytes, cache_bytes));
}

uint32_t window_chunks_that_fit(uint32_t chunks, uint32_t wanted_chunks, int64_t headroom_bytes,
                                uint64_t chunk_bytes) {
  const auto chunk = static_cast<int64_t>(chunk_bytes);
  if (headroom_bytes < headroom_bytes_min) {
    const int64_t missing_bytes = 2 * headroom_bytes_min - headroom_bytes;
    const int64_t left = int64_t{chunks} - (missing_bytes + chunk - 1) / chunk;
    const auto least = std::min<int64_t>(chunks, static_cast<int64_t>(window_bytes_least) / chunk);
    return static_cast<uint32_t>(std::max(left, least));
  }
  if (headroom_bytes <= headroom_bytes_ample) return chunks;
  const int64_t more = (headroom_bytes - headroom_bytes_ample) / 2 / chunk;
  return static_cast<uint32_t>(std::min<int64_t>(wanted_chunks, int64_t{chunks} + more));
}

}  // namespace weightpager::window
