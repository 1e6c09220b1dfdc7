#include "tools/live/server_socket.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "pager/control/runtime_directory.h"

namespace weightpager::tools {
namespace {

constexpr size_t name_length_max = 48;

bool is_name(const std::string& name) {
  const auto is_allowed = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '.' || letter == '_' || letter == '-';
  };
  return !name.empty() && name.size() <= name_length_max && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

}  // namespace

Result<std::string> server_socket(const std::string& name) {
  if (!is_name(name)) {
    return fail(fmt::format("'{}' is no name for a server", name),
                fmt::format("take up to {} letters, digits, '.', '_' and '-'", name_length_max));
  }
  const auto directory = control::runtime_directory();
  if (!directory) return directory;
  return fmt::format("{}/{}.socket", *directory, name);
}

}  // namespace weightpager::tools
