#include "pager/base/user_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pager/base/owned_fd.h"
#include "pager/base/units.h"
#include "pager/base/whole_file.h"

namespace weightpager {

std::string user_cache_directory() {
  const char* const caches = std::getenv("XDG_CACHE_HOME");
  if (caches != nullptr && caches[0] == '/') return std::string(caches) + "/weightpager";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/weightpager";
  return "";
}

Result<std::string> read_own_file(const std::string& path, uint64_t bytes_max) {
  const std::string hint = "rm " + path;
  const OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open()) return fail(path + ": cannot be opened: " + std::strerror(errno), hint, errno);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      static_cast<uint64_t>(status.st_size) > bytes_max) {
    return fail(path + ": expected a file of this user's, of at most " + format_size(bytes_max),
                hint);
  }
  return read_to_end(fd.get(), path, bytes_max, "a file of weightpager's");
}

}  // namespace weightpager
