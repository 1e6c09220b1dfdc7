// Completion for shells: each is one file that the shell finds where CMake installs it. Commands,
// options, and where they can be known values: files, sizes, names from the tables, the pagers
// that run, the engine's own arguments. How a shell goes through the words that are typed is
// written in its own language, in completion.*; what these return is appended to that.
#pragma once

#include <string>
#include <vector>

#include "tools/manual/pages.h"

namespace weightpager::tools::manual {

std::string bash_completion(const std::vector<Page>& pages);
std::string zsh_completion(const std::vector<Page>& pages);
std::string fish_completion(const std::vector<Page>& pages);

}  // namespace weightpager::tools::manual
