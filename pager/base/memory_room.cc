#include "pager/base/memory_room.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "pager/base/memory_limit.h"
#include "pager/base/units.h"

namespace weightpager {
namespace {

namespace fs = std::filesystem;
using Kind = MemoryRoom::Kind;

/// Reads a file whose lines are "key number" or "key: number unit".
std::map<std::string, uint64_t> read_table(const std::string& path) {
  std::map<std::string, uint64_t> table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t key_end = line.find_first_of(": \t");
    const size_t digits = line.find_first_of("0123456789", key_end);
    if (key_end == std::string::npos || digits == std::string::npos) continue;
    table[line.substr(0, key_end)] = std::strtoull(line.c_str() + digits, nullptr, 10);
  }
  return table;
}

/// Reads a file that consists of a number; `otherwise` for "max" and for a file that does not
/// exist.
uint64_t read_number(const fs::path& path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : otherwise;
}

uint64_t difference(uint64_t from, uint64_t less) { return from - std::min(from, less); }

/// The memory that a group may still take: its limit without the memory in use that is not page
/// cache, and the swap that both the group and the machine have left.
MemoryRoom room_in_group(const MemoryLimit& limit, const std::string& root,
                         uint64_t swap_free_bytes) {
  const fs::path file = root + limit.source;
  const fs::path folder = file.parent_path();
  const bool is_v1 = file.filename() == "memory.limit_in_bytes";
  auto statistics = read_table((folder / "memory.stat").string());
  // In version 1, figures that include the groups below have other names.
  const std::string prefix = is_v1 ? "total_" : "";
  const uint64_t cache_bytes =
      statistics[prefix + "inactive_file"] + statistics[prefix + "active_file"];
  const auto used = [&](const char* name) {
    return difference(read_number(folder / name, 0), cache_bytes);
  };
  const uint64_t used_bytes = used(is_v1 ? "memory.usage_in_bytes" : "memory.current");
  uint64_t room_bytes = difference(limit.bytes, used_bytes);
  if (is_v1) {
    const uint64_t both_bytes = read_number(folder / "memory.memsw.limit_in_bytes", UINT64_MAX);
    room_bytes = std::min(room_bytes + swap_free_bytes,
                          difference(both_bytes, used("memory.memsw.usage_in_bytes")));
  } else {
    const uint64_t swap_bytes = difference(read_number(folder / "memory.swap.max", UINT64_MAX),
                                           read_number(folder / "memory.swap.current", 0));
    room_bytes += std::min(swap_bytes, swap_free_bytes);
  }
  return {limit.source, limit.bytes, room_bytes, Kind::cgroup};
}

void add_own_limit(std::vector<MemoryRoom>& rooms, Kind kind, uint64_t used_kib) {
  const bool is_address_space = kind == Kind::address_space;
  rlimit limit{};
  if (getrlimit(is_address_space ? RLIMIT_AS : RLIMIT_DATA, &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY) return;
  rooms.push_back({is_address_space ? "ulimit -v" : "ulimit -d", limit.rlim_cur,
                   difference(limit.rlim_cur, used_kib * KiB), kind});
}

uint64_t bytes_of(const MemoryNeed& need, const MemoryRoom& room) {
  const bool is_address_space = room.kind == Kind::address_space;
  return is_address_space ? std::max(need.bytes, need.address_bytes) : need.bytes;
}

uint64_t least_limit(const MemoryRoom& room, uint64_t bytes) {
  return round_up(room.limit_bytes - std::min(room.limit_bytes, room.room_bytes) + bytes, MiB);
}

std::string how_to_raise(const MemoryRoom& room, uint64_t bytes) {
  const uint64_t least_bytes = least_limit(room, bytes);
  switch (room.kind) {
    case Kind::cgroup:
      return fmt::format("the least that works is a limit of {} ({} bytes)",
                         format_size(least_bytes), least_bytes);
    case Kind::address_space:
      return fmt::format("the least that works is `ulimit -v {}`", least_bytes / KiB);
    case Kind::data:
      return fmt::format("the least that works is `ulimit -d {}`", least_bytes / KiB);
    case Kind::machine:
      break;
  }
  return "end other programs, or take a machine with more memory";
}

}  // namespace

std::vector<MemoryRoom> memory_rooms(const std::string& root) {
  auto machine = read_table(root + "/proc/meminfo");
  const uint64_t swap_free_bytes = machine["SwapFree"] * KiB;
  std::vector<MemoryRoom> rooms;
  if (machine.count("MemAvailable") > 0) {
    rooms.push_back({"/proc/meminfo (MemTotal)", machine["MemTotal"] * KiB,
                     machine["MemAvailable"] * KiB + swap_free_bytes, Kind::machine});
  }
  const std::vector<MemoryLimit> limits = memory_limits(root);
  for (size_t i = 1; i < limits.size(); ++i) {
    rooms.push_back(room_in_group(limits[i], root, swap_free_bytes));
  }
  auto process = read_table(root + "/proc/self/status");
  add_own_limit(rooms, Kind::address_space, process["VmSize"]);
  add_own_limit(rooms, Kind::data, process["VmData"]);
  return rooms;
}

Status check_room(const MemoryNeed& need, const std::string& instead,
                  const std::vector<MemoryRoom>& rooms) {
  const MemoryRoom* narrowest = nullptr;
  for (const MemoryRoom& room : rooms) {
    if (bytes_of(need, room) <= room.room_bytes) continue;
    if (narrowest == nullptr || room.room_bytes < narrowest->room_bytes) narrowest = &room;
  }
  if (narrowest == nullptr) return {};
  const uint64_t bytes = bytes_of(need, *narrowest);
  const std::string hint = how_to_raise(*narrowest, bytes);
  return fail(fmt::format("{} takes {}{}, and there is room for {}: {} is {}", need.what,
                          format_size(bytes), need.parts.empty() ? "" : " (" + need.parts + ")",
                          format_size(narrowest->room_bytes), narrowest->source,
                          format_size(narrowest->limit_bytes)),
              instead.empty() ? hint : hint + "; or " + instead, ENOMEM);
}

}  // namespace weightpager
