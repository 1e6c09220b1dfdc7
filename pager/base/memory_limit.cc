// /proc/self/cgroup names a cgroup by its path in the hierarchy. /proc/self/mountinfo says where
// the hierarchy is mounted, and from which of its paths on (a container sees only a part). A limit
// holds for everything below it, so all directories up to the mount point are searched as well.
#include "pager/base/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "pager/base/units.h"

namespace weightpager {
namespace {

namespace fs = std::filesystem;

struct CgroupMount {
  std::string hierarchy_root;  // the path in the hierarchy that is visible at mount_point
  std::string mount_point;
};

struct CgroupVersion {
  const char* filesystem;
  const char* limit_file;
  /// The controller's name in /proc/self/cgroup and among the mount's options. v2 has one unnamed
  /// hierarchy for all controllers.
  const char* controller;
};

constexpr CgroupVersion cgroup_versions[] = {{"cgroup2", "memory.max", ""},
                                             {"cgroup", "memory.limit_in_bytes", "memory"}};

bool list_contains(const std::string& comma_separated, const std::string& word) {
  return ("," + comma_separated + ",").find("," + word + ",") != std::string::npos;
}

/// A line is `36 35 98:0 /root /mount/point options … - filesystem source super,options`.
std::optional<CgroupMount> find_mount(const std::string& root, const CgroupVersion& version) {
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string skipped, word, filesystem, super_options;
    CgroupMount mount;
    words >> skipped >> skipped >> skipped >> mount.hierarchy_root >> mount.mount_point;
    while (words >> word && word != "-") continue;
    words >> filesystem >> skipped >> super_options;
    const bool has_controller =
        !*version.controller || list_contains(super_options, version.controller);
    if (filesystem == version.filesystem && has_controller) return mount;
  }
  return std::nullopt;
}

/// A line is `4:memory:/path` or, for v2, `0::/path`.
std::optional<std::string> find_cgroup(const std::string& root, const CgroupVersion& version) {
  std::ifstream cgroups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches =
        *version.controller ? list_contains(controllers, version.controller) : controllers.empty();
    if (matches) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// nullopt for "max", for a text that is not a number, and for a file that does not exist.
std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

void add_limits_of_cgroups(std::vector<MemoryLimit>& limits, const std::string& root,
                           const CgroupVersion& version) {
  const auto mount = find_mount(root, version);
  const auto cgroup = find_cgroup(root, version);
  if (!mount || !cgroup) return;
  fs::path relative = fs::path(*cgroup).lexically_relative(mount->hierarchy_root);
  const bool outside = relative.empty() || *relative.begin() == "..";
  if (outside || relative == ".") relative.clear();
  while (true) {
    const auto file = (fs::path(mount->mount_point) / relative / version.limit_file).string();
    const auto bytes = read_number(root + file);
    if (bytes) limits.push_back({*bytes, file});
    if (relative.empty()) return;
    relative = relative.parent_path();
  }
}

MemoryLimit installed_memory(const std::string& root) {
  std::ifstream meminfo(root + "/proc/meminfo");
  std::string key;
  for (uint64_t kib = 0; meminfo >> key >> kib; meminfo.ignore(256, '\n')) {
    if (key == "MemTotal:") return {kib * KiB, "/proc/meminfo (MemTotal)"};
  }
  return {std::numeric_limits<uint64_t>::max(), "no limit known"};
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  std::vector<MemoryLimit> limits = {installed_memory(root)};
  for (const CgroupVersion& version : cgroup_versions) add_limits_of_cgroups(limits, root, version);
  return limits;
}

MemoryLimit memory_limit(const std::string& root) {
  const std::vector<MemoryLimit> limits = memory_limits(root);
  return *std::ranges::min_element(limits, {}, &MemoryLimit::bytes);
}

}  // namespace weightpager
