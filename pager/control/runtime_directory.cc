#include "pager/control/runtime_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace weightpager::control {
namespace {

/// The name alone proves nothing: in /tmp another user may have made the directory, or a link.
bool is_private(const std::string& path, uid_t user) {
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == user &&
         (facts.st_mode & 0077) == 0;
}

/// $XDG_RUNTIME_DIR; "" if another user owns it or can enter it, which XDG's rules forbid.
std::string session_directory() {
  const char* const path = std::getenv("XDG_RUNTIME_DIR");
  if (path == nullptr || *path != '/' || !is_private(path, geteuid())) return "";
  return path;
}

std::string preferred() {
  const std::string session = session_directory();
  if (!session.empty()) return session + "/weightpager";
  if (geteuid() == 0) return "/run/weightpager";
  return "/tmp/weightpager-" + std::to_string(geteuid());
}

}  // namespace

Result<std::string> runtime_directory() {
  const std::string path = preferred();
  const char* const cure = "set XDG_RUNTIME_DIR to a directory of yours that others cannot enter";
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int error = errno;
    return fail(path + ": cannot be made: " + std::strerror(error), cure, error);
  }
  // Earlier versions let others into root's.
  if (path == "/run/weightpager") chmod(path.c_str(), 0700);
  if (is_private(path, geteuid())) return path;
  return fail(path + ": not a directory that only you can enter", cure, EACCES);
}

Result<std::string> own_socket_path() {
  auto directory = runtime_directory();
  if (!directory) return directory;
  return *directory + "/" + std::to_string(getpid()) + std::string(socket_ending);
}

std::vector<std::string> runtime_directories(uid_t user) {
  std::vector<std::string> found = {"/run/user/" + std::to_string(user) + "/weightpager",
                                    "/tmp/weightpager-" + std::to_string(user)};
  if (user == 0) found.insert(found.begin(), "/run/weightpager");
  if (user == geteuid() && !session_directory().empty()) found.insert(found.begin(), preferred());
  std::vector<std::string> there;
  for (const std::string& path : found) {
    const bool is_new = std::find(there.begin(), there.end(), path) == there.end();
    if (is_new && is_private(path, user)) there.push_back(path);
  }
  return there;
}

}  // namespace weightpager::control
