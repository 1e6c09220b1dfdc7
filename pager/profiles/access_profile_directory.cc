#include "pager/profiles/access_profile_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"

namespace weightpager::profiles {
namespace {

constexpr uint64_t file_bytes_max = 1 * MiB;

// What a set of files is known by: sizes and layouts, in no order.
std::vector<std::pair<uint64_t, uint64_t>> key_of(std::span<const ProfiledFile> files) {
  std::vector<std::pair<uint64_t, uint64_t>> key;
  for (const ProfiledFile& file : files) key.emplace_back(file.layout, file.size_bytes);
  std::sort(key.begin(), key.end());
  return key;
}

Result<StoredAccessProfile> read_access_profile(const std::string& path, uint64_t chunk_bytes,
                                                std::span<const ProfiledFile> files) {
  const auto text = read_own_file(path, file_bytes_max);
  if (!text) return tl::make_unexpected(text.error());
  auto access_profile = parse_access_profile(*text, path);
  if (!access_profile) return access_profile;
  if (access_profile->chunk_bytes != chunk_bytes ||
      key_of(access_profile->files) != key_of(files)) {
    return fail(path + ": is of other model files", "rm " + path);
  }
  return access_profile;
}

}  // namespace

std::string access_profile_path(const std::string& directory, uint64_t chunk_bytes,
                                std::span<const ProfiledFile> files) {
  const auto key = key_of(files);
  const uint64_t hash =
      XXH3_64bits_withSeed(key.data(), key.size() * sizeof key.front(), chunk_bytes);
  return fmt::format("{}/learned-{:016x}.json", directory, hash);
}

std::optional<StoredAccessProfile> find_access_profile(const std::string& directory,
                                                       uint64_t chunk_bytes,
                                                       std::span<const ProfiledFile> files) {
  const std::string path = access_profile_path(directory, chunk_bytes, files);
  if (access(path.c_str(), F_OK) != 0) return std::nullopt;
  auto access_profile = read_access_profile(path, chunk_bytes, files);
  if (access_profile) return std::move(*access_profile);
  notice(fmt::format("{}; the order and the pace are learned anew. To mend it: {}",
                     access_profile.error().message, access_profile.error().hint));
  return std::nullopt;
}

}  // namespace weightpager::profiles
