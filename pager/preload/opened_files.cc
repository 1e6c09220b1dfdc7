#include "pager/preload/opened_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

namespace weightpager::preload {
namespace {

struct Noted {
  std::atomic<uint64_t> device{0};
  std::atomic<uint64_t> inode{0};
};
constexpr size_t noted_max = 256;

/// The last files that were noted.
struct NotedFiles {
  Noted places[noted_max];
  std::atomic<size_t> count{0};

  bool has(const model::FileId& file) const {
    const Noted* const end = places + std::min(count.load(), noted_max);
    return std::any_of(static_cast<const Noted*>(places), end, [&](const Noted& it) {
      return it.inode.load() == file.inode && it.device.load() == file.device;
    });
  }
  void add(const model::FileId& file) {
    if (has(file)) return;
    Noted& place = places[count.fetch_add(1) % noted_max];
    place.device.store(file.device);
    place.inode.store(file.inode);
  }
};
NotedFiles meant_by_globs;
NotedFiles to_be_written;

/// Writes the directory that a relative path begins at into `text`. Returns its length, or 0.
size_t folder_of(int directory, char* text, size_t text_bytes) {
  char link[32] = "/proc/self/cwd";
  if (directory != AT_FDCWD) std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
  const ssize_t length = readlink(link, text, text_bytes);
  const bool is_whole = length > 0 && static_cast<size_t>(length) < text_bytes;
  return is_whole ? static_cast<size_t>(length) : 0;
}

bool is_meant(int directory, const char* path, const std::vector<std::string>& globs) {
  char absolute[2 * PATH_MAX];
  const size_t path_length = strnlen(path, PATH_MAX);
  if (path_length == PATH_MAX) return false;
  size_t length = 0;
  if (*path != '/') {
    length = folder_of(directory, absolute, PATH_MAX);
    absolute[length++] = '/';
  }
  std::memcpy(absolute + length, path, path_length + 1);
  model::normalize_path(absolute);
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return model::glob_names(glob.c_str(), absolute);
  });
}

}  // namespace

void remember_opened(int fd, int directory, const char* path,
                     const std::vector<std::string>& globs) {
  if (fd < 0 || globs.empty()) return;
  const int error_number = errno;
  struct stat facts;
  if (is_meant(directory, path, globs) && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode))
    meant_by_globs.add({facts.st_dev, facts.st_ino});
  errno = error_number;
}

bool was_noted(const model::FileId& file) { return meant_by_globs.has(file); }

void note_to_be_written(const model::FileId& file) { to_be_written.add(file); }

bool may_be_written(const model::FileId& file) { return to_be_written.has(file); }

}  // namespace weightpager::preload
