#include "tools/server_socket.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

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

std::string directory() {
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime == '/') return fmt::format("{}/weightpager", runtime);
  if (geteuid() == 0) return "/run/weightpager/servers";
  return fmt::format("/tmp/weightpager-{}", geteuid());
}

Status make_private(const std::string& path) {
  if (geteuid() == 0) mkdir("/run/weightpager", 0755);  // there already, or the next call will tell
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int error = errno;
    return fail(fmt::format("{}: cannot be made: {}", path, strerror(error)),
                "set XDG_RUNTIME_DIR to a directory of yours", error);
  }
  // Not by its name alone: in /tmp somebody else may have made it, or a link.
  struct stat status = {};
  const bool is_private = lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                          status.st_uid == geteuid() && (status.st_mode & 0077) == 0;
  if (is_private) return {};
  return fail(fmt::format("{}: not a directory that only you can enter", path),
              "set XDG_RUNTIME_DIR to a directory of yours", EACCES);
}

}  // namespace

Result<std::string> server_socket(const std::string& name) {
  if (!is_name(name)) {
    return fail(fmt::format("'{}' is no name for a server", name),
                fmt::format("take up to {} letters, digits, '.', '_' and '-'", name_length_max));
  }
  const std::string path = directory();
  if (auto made = make_private(path); !made) return forward_error(std::move(made));
  return fmt::format("{}/{}.socket", path, name);
}

}  // namespace weightpager::tools
