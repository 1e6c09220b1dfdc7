#include "tools/report/html_text.h"

namespace weightpager::tools {

std::string html_text(const std::string& text) {
  std::string html;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      default:
        html += letter;
    }
  }
  return html;
}

}  // namespace weightpager::tools
