// Checks that there is room for the memory that a command is about to take.
//
// Problem. A command that takes more memory than there is notices it late: a memory cgroup kills
// without a word, the machine's OOM killer ends other programs first, and under `ulimit -v` an
// allocation somewhere fails. By then minutes of work may be lost.
//
// Idea. The size is mostly known beforehand. It is compared with the memory that each limit leaves:
// the memory cgroup's and those of all groups around it, the machine's, and the process's own
// (`ulimit -v`, `ulimit -d`). Page cache counts as free, because the kernel takes it back by
// itself; swap counts as far as it may be used. The error says which limit is too low, and the
// least value that works.
//
// Cost: reading some twenty small files of the kernel's. The answer holds only now, because other
// programs take memory, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager {

/// The memory that one limit leaves.
struct MemoryRoom {
  /// "/sys/fs/cgroup/…/memory.max", "ulimit -v", "/proc/meminfo (MemAvailable)".
  std::string source;
  uint64_t limit_bytes = 0;
  uint64_t room_bytes = 0;
  enum class Kind { cgroup, machine, address_space, data } kind = Kind::machine;
};

/// All limits of this process. `root` is put before /proc and the cgroup mounts, for tests.
std::vector<MemoryRoom> memory_rooms(const std::string& root = "");

struct MemoryNeed {
  /// For the error: the purpose, such as "yolov3.weights: a pass", and, if that needs it, what the
  /// bytes are.
  std::string what;
  std::string parts = {};
  /// The bytes that will be in memory at once.
  uint64_t bytes = 0;
  /// The bytes of address space, if they are more (memory that is mapped twice, stacks).
  uint64_t address_bytes = 0;
};

/// Fails if a limit leaves less; the error names the narrowest limit. `instead` ends the hint: a
/// way that takes less memory, or "".
Status check_room(const MemoryNeed& need, const std::string& instead,
                  const std::vector<MemoryRoom>& rooms = memory_rooms());

}  // namespace weightpager
