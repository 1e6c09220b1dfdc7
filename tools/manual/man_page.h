// Makes a man page for scdoc from a command's table and from the text that was written by hand.
#pragma once

#include <string>

#include "tools/manual/pages.h"

namespace weightpager::tools::manual {

/// `prose`: sections that begin with "# TITLE". If the table has text for a title, the section of
/// that title is appended to it. The other sections stand before SEE ALSO.
std::string man_page(const Page& page, const std::string& prose);

}  // namespace weightpager::tools::manual
