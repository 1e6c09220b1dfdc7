#include "runtime/plan/profile_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "pager/base/log.h"
#include "pager/base/owned_fd.h"
#include "pager/base/units.h"
#include "pager/model/make_file.h"

namespace weightpager::plan {
namespace {

// A hundred networks' worth.
constexpr off_t file_bytes_max = 64 * MiB;

Result<std::string> read_own_file(const std::string& path) {
  // Not a link, not something that blocks.
  const OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open()) {
    return fail(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)),
                fmt::format("rm {}; it is made again", path), errno);
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      status.st_size > file_bytes_max) {
    return fail(fmt::format("{}: expected a file of this user's, of at most {}", path,
                            format_size(file_bytes_max)),
                fmt::format("rm {}; it is made again", path));
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        pread(fd.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace

std::string profile_cache_path(const std::string& machine) {
  const char* const caches = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::filesystem::path directory;
  if (caches != nullptr && caches[0] == '/') {
    directory = caches;
  } else if (home != nullptr && home[0] == '/') {
    directory = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  const uint64_t hash = XXH3_64bits(machine.data(), machine.size());
  return directory / "weightpager" / fmt::format("primitives-{:016x}.json", hash);
}

Profile read_profile_cache(const std::string& path, const std::string& machine) {
  const Profile nothing{.machine = machine};
  if (path.empty() || access(path.c_str(), F_OK) != 0) return nothing;
  const auto text = read_own_file(path);
  if (!text) {
    notice(fmt::format("{}; measuring again", text.error().message));
    return nothing;
  }
  auto profile = parse_profile(*text, machine, path);
  if (!profile) {
    notice(fmt::format("{}; measuring again", profile.error().message));
    return nothing;
  }
  return *std::move(profile);
}

Status write_profile_cache(const std::string& path, const Profile& profile) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string text = profile_text(profile);
  auto file = model::MadeFile::create(path, text.size());
  if (!file) return forward_error(std::move(file));
  if (Status written = file->write(0, text); !written) return written;
  return file->commit();
}

}  // namespace weightpager::plan
