// Keeps what the pagers of a run learned about their engines, for the next start.
#pragma once

#include <string>

namespace weightpager::tools {

/// From the run directory to where the next pagers look
/// (pager/profiles/access_profile_directory.h); makes that directory. Each file is replaced as a
/// whole; what cannot be kept is an error on stderr.
void keep_access_profiles(const std::string& run_directory,
                          const std::string& access_profile_directory);

}  // namespace weightpager::tools
