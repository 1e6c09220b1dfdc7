// Whether there is room for the memory that a command is about to take.
//
// Problem. Who takes more than there is learns of it late: a memory cgroup kills without a word,
// the machine's OOM killer ends other programs first, and under `ulimit -v` an allocation somewhere
// fails. By then minutes of work may be lost.
//
// Idea. What is taken is mostly known beforehand. It is compared with what each limit leaves: the
// memory cgroup's and all those around it, the machine's, and the process's own (`ulimit -v`,
// `ulimit -d`). What is page cache counts as free, for the kernel takes it back by itself, and swap
// as far as it may be used. The error says which limit it is, and the least that works.
//
// Cost: some twenty small files of the kernel's. What it finds is true now, and may not be later:
// others take memory, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager {

/// What one limit leaves.
struct MemoryRoom {
  /// "/sys/fs/cgroup/…/memory.max", "ulimit -v", "/proc/meminfo (MemAvailable)".
  std::string source;
  uint64_t limit_bytes = 0;
  uint64_t room_bytes = 0;
  enum class Kind { cgroup, machine, address_space, data } kind = Kind::machine;
};

/// All limits that there are. `root` is put before /proc and the cgroup mounts, for tests.
std::vector<MemoryRoom> memory_rooms(const std::string& root = "");

struct MemoryNeed {
  /// For the error: "yolov3.weights: a pass", and what the bytes are, where more is to be said.
  std::string what;
  std::string parts = {};
  /// That will be in memory at once.
  uint64_t bytes = 0;
  /// Of address space, where that is more (what is mapped twice, stacks).
  uint64_t address_bytes = 0;
};

/// Fails where a limit leaves less, and names the narrowest. `instead` ends the hint: what takes
/// less, or nothing.
Status check_room(const MemoryNeed& need, const std::string& instead,
                  const std::vector<MemoryRoom>& rooms = memory_rooms());

}  // namespace weightpager
