// Where access profiles are kept between runs: one file of JSON for each set of model files that
// were served together, in chunks of one size, in weightpager's part of the user's cache directory.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "pager/profiles/stored_access_profile.h"

namespace weightpager::profiles {

/// learned-HASH.json in the directory. The order of `files` makes no difference.
std::string access_profile_path(const std::string& directory, uint64_t chunk_bytes,
                                std::span<const ProfiledFile> files);

/// The access profile of these files, if one is kept. One that is damaged, or of other files, is a
/// notice.
std::optional<StoredAccessProfile> find_access_profile(const std::string& directory,
                                                       uint64_t chunk_bytes,
                                                       std::span<const ProfiledFile> files);

}  // namespace weightpager::profiles
