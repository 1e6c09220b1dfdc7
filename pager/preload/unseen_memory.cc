#include "pager/preload/unseen_memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/spilled_blocks.h"
#include "pager/telemetry/marks.h"

namespace weightpager::preload {
namespace {

constexpr uint64_t unseen_bytes_min = 64 * MiB;
// JavaScript's heap and the like, which are no weights, stay below.
constexpr uint64_t mapped_bytes_min = 128 * MiB;
// Smaller mappings are stacks and the like.
constexpr uint64_t mapping_rss_bytes_min = 4 * MiB;

std::atomic<uint64_t> asked_bytes{0};
std::atomic<uint64_t> writable_asked_bytes{0};  // of these, large and writable

/// Goes through a file of /proc line by line, without an allocation.
template <typename Act>
void for_each_line(const char* path, Act act) {
  static char buffer[16 * KiB];
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return;
  size_t held = 0;
  while (true) {
    const ssize_t got = kernel::read(fd, buffer + held, sizeof buffer - held);
    if (got <= 0) break;
    held += static_cast<size_t>(got);
    std::string_view rest(buffer, held);
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      buffer[held - rest.size() + end] = '\0';
      act(rest.data());
      rest.remove_prefix(end + 1);
    }
    held = rest.size() == sizeof buffer ? 0 : rest.size();
    std::memmove(buffer, rest.data(), held);
  }
  syscall(SYS_close, fd);
}

/// A mapping of /proc/self/smaps, as far as it has been read.
struct OneMapping {
  bool is_own_memory = false;  // anonymous and writable: the heap, or without a name
  uint64_t rss_bytes = 0;
  bool is_kept_from_children = false;  // as all that the pager maps
  uint64_t counted_bytes() const {
    return is_own_memory && !is_kept_from_children && rss_bytes >= mapping_rss_bytes_min ? rss_bytes
                                                                                         : 0;
  }
};

bool begins_mapping(const char* line, OneMapping& mapping) {
  char rights[5] = {};
  unsigned long inode = 0;
  char name[16] = {};
  const int read = std::sscanf(line, "%*x-%*x %4s %*x %*s %lu %15s", rights, &inode, name);
  if (read < 2) return false;
  const bool is_heap =
      std::strcmp(name, "[heap]") == 0 || name[0] == '\0' || std::strncmp(name, "[anon:", 6) == 0;
  mapping = {.is_own_memory = inode == 0 && is_heap && std::strncmp(rights, "rw-p", 4) == 0};
  return true;
}

/// Anonymous memory that is there, but for the pager's.
uint64_t anonymous_bytes() {
  uint64_t bytes = 0;
  OneMapping mapping;
  for_each_line("/proc/self/smaps", [&](const char* line) {
    unsigned long kib = 0;
    if (std::sscanf(line, "Rss: %lu", &kib) == 1) {
      mapping.rss_bytes = kib * KiB;
    } else if (std::strncmp(line, "VmFlags:", 8) == 0) {
      mapping.is_kept_from_children = std::strstr(line, " dc") != nullptr;
      bytes += mapping.counted_bytes();
      mapping = {};
    } else {
      begins_mapping(line, mapping);
    }
  });
  return bytes;
}

/// All anonymous memory, from the kernel's counters: a cheap bound of the above.
uint64_t anonymous_bytes_max() {
  unsigned long kib = 0;
  for_each_line("/proc/self/status",
                [&](const char* line) { std::sscanf(line, "RssAnon: %lu", &kib); });
  return kib * KiB;
}

/// What the C library's allocator holds.
uint64_t library_bytes() {
  const struct mallinfo2 held = mallinfo2();
  return held.arena + held.hblkhd;
}

}  // namespace

void note_anonymous_mapping(size_t length_bytes, bool is_own_memory) {
  asked_bytes.fetch_add(length_bytes, std::memory_order_relaxed);
  if (is_own_memory && length_bytes >= mapping_rss_bytes_min)
    writable_asked_bytes.fetch_add(length_bytes, std::memory_order_relaxed);
}

void note_unseen_memory() {
  const bool is_spilling = spilled_bytes_min.load() != SIZE_MAX;
  if (!is_spilling || anonymous_bytes_max() < unseen_bytes_min) return;
  const uint64_t bytes = anonymous_bytes();
  const uint64_t own_bytes = bytes - std::min(bytes, library_bytes());
  const uint64_t mapped_bytes = std::min(own_bytes, writable_asked_bytes.load());
  const uint64_t unseen_bytes = own_bytes - std::min(own_bytes, asked_bytes.load());
  if (mapped_bytes >= mapped_bytes_min)
    telemetry::leave_mark(telemetry::MarkKind::mapped_memory, "", mapped_bytes);
  if (unseen_bytes >= unseen_bytes_min)
    telemetry::leave_mark(telemetry::MarkKind::unseen_memory, "", unseen_bytes);
}

}  // namespace weightpager::preload
