// A man page as scdoc reads it: what the command's table says, and what was written by hand about
// it.
#pragma once

#include <string>

#include "tools/manual/pages.h"

namespace weightpager::tools::manual {

/// `prose`: sections that begin with "# TITLE". One of a title that the table has something for
/// comes behind that; others stand before SEE ALSO.
std::string man_page(const Page& page, const std::string& prose);

}  // namespace weightpager::tools::manual
