// The most memory that this process may use: the machine's, or less inside a memory cgroup.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weightpager {

struct MemoryLimit {
  uint64_t bytes = 0;
  /// The file that has the limit: "/proc/meminfo (MemTotal)" or the cgroup's limit file.
  std::string source;
};

/// The lowest of MemTotal and of the limits of all memory cgroups (v1 and v2) that this process is
/// in, the enclosing ones included. `root` is put before /proc and the cgroup mounts, for tests.
MemoryLimit memory_limit(const std::string& root = "");

/// All limits: MemTotal first, then those of the cgroups, the innermost first.
std::vector<MemoryLimit> memory_limits(const std::string& root = "");

}  // namespace weightpager
