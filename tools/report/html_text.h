// Text in HTML and in SVG.
#pragma once

#include <string>

namespace weightpager::tools {

/// The text with &, < and > as entities.
std::string html_text(const std::string& text);

}  // namespace weightpager::tools
