// Lines of text files that people have written on any system: lines end in LF, CRLF or CR, and a
// byte order mark may come first.
#pragma once

#include <algorithm>
#include <string_view>

namespace weightpager {

inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

/// Takes the first line, without its end, off the text.
inline std::string_view take_line(std::string_view& text) {
  const size_t length = std::min(text.find_first_of("\r\n"), text.size());
  const std::string_view line = text.substr(0, length);
  const size_t end_bytes = text.substr(length).starts_with("\r\n") ? 2 : 1;
  text.remove_prefix(std::min(length + end_bytes, text.size()));
  return line;
}

}  // namespace weightpager
