// Keeps the access profiles that the pagers of a run have learned, for the next run.
#pragma once

#include <string>

namespace weightpager::tools {

/// Copies the access profiles from the run directory to the place where the next pagers look
/// (pager/profiles/access_profile_directory.h), and makes that directory. Each file is replaced as
/// a whole. A profile that cannot be kept is an error on stderr.
void keep_access_profiles(const std::string& run_directory,
                          const std::string& access_profile_directory);

}  // namespace weightpager::tools
