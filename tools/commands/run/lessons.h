// What a run's engines taught their pagers, kept for the next start.
#pragma once

#include <string>

namespace weightpager::tools {

/// From the run directory to where the next pagers look (pager/lessons/lesson_shelf.h); makes that
/// directory. Each file is replaced as a whole; what cannot be kept is an error on stderr.
void keep_lessons(const std::string& run_directory, const std::string& lesson_directory);

}  // namespace weightpager::tools
