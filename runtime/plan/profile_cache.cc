#include "runtime/plan/profile_cache.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <filesystem>

#include "pager/base/log.h"
#include "pager/base/made_file.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"

namespace weightpager::plan {
namespace {

// Enough for a hundred networks.
constexpr uint64_t cache_bytes_max = 64 * MiB;

}  // namespace

std::string profile_cache_path(const std::string& machine) {
  const std::string directory = user_cache_directory();
  if (directory.empty()) return "";
  const uint64_t hash = XXH3_64bits(machine.data(), machine.size());
  return fmt::format("{}/primitives-{:016x}.json", directory, hash);
}

Profile read_profile_cache(const std::string& path, const std::string& machine) {
  const Profile nothing{.machine = machine};
  if (path.empty() || access(path.c_str(), F_OK) != 0) return nothing;
  const auto text = read_own_file(path, cache_bytes_max);
  if (!text) {
    notice(fmt::format("{}; measuring again", text.error().message));
    return nothing;
  }
  auto profile = parse_profile(*text, machine, path);
  if (!profile) {
    notice(fmt::format("{}; measuring again", profile.error().message));
    return nothing;
  }
  return *std::move(profile);
}

Status write_profile_cache(const std::string& path, const Profile& profile) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string text = profile_text(profile);
  auto file = MadeFile::create(path, text.size());
  if (!file) return forward_error(std::move(file));
  if (Status written = file->write(0, text); !written) return written;
  return file->commit();
}

}  // namespace weightpager::plan
