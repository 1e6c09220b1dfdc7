// Completion for shells: one file for each shell, which the shell finds where CMake installs it. It
// completes commands, options, and values if they can be known: files, sizes, names from the
// tables, the pagers that run, the engine's own arguments. completion.* are written in each shell's
// own language and go through the words that are typed; the text of these functions is appended to
// them.
#pragma once

#include <string>
#include <vector>

#include "tools/manual/pages.h"

namespace weightpager::tools::manual {

std::string bash_completion(const std::vector<Page>& pages);
std::string zsh_completion(const std::vector<Page>& pages);
std::string fish_completion(const std::vector<Page>& pages);

}  // namespace weightpager::tools::manual
