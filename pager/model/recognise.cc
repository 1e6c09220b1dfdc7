#include "pager/model/recognise.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "pager/base/owned_fd.h"
#include "pager/model/header_reader.h"
#include "pager/model/known_formats.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;

// Below this fnmatch(3) needs no heap.
constexpr size_t path_bytes_max = 1000;

std::string quote_for_glob(const std::string& path) {
  std::string quoted;
  for (const char letter : path) {
    if (std::strchr("*?[\\", letter) != nullptr) quoted += '\\';
    quoted += letter;
  }
  return quoted;
}

}  // namespace

std::string format_file_ids(const std::vector<FileId>& files) {
  std::string text;
  for (const FileId& it : files) {
    if (!text.empty()) text += ',';
    text += std::to_string(it.device) + ':' + std::to_string(it.inode);
  }
  return text;
}

std::vector<FileId> parse_file_ids(std::string_view text) {
  std::vector<FileId> files;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const char* const end = one.data() + one.size();
    FileId file;
    const auto device = std::from_chars(one.data(), end, file.device);
    if (device.ec != std::errc{} || device.ptr == end || *device.ptr != ':') continue;
    const auto inode = std::from_chars(device.ptr + 1, end, file.inode);
    if (inode.ec == std::errc{} && inode.ptr == end) files.push_back(file);
  }
  return files;
}

std::string absolute_glob(const std::string& glob, const std::string& directory) {
  const bool is_relative =
      glob.find('/') != std::string::npos && glob.front() != '/' && glob.front() != '*';
  if (!is_relative) return glob;
  std::string absolute = quote_for_glob(directory) + '/' + glob;
  normalize_path(absolute.data());
  absolute.resize(std::strlen(absolute.c_str()));
  return absolute;
}

void normalize_path(char* path) {
  if (*path != '/') return;
  char* end = path;  // of what is normal already; there, a '/' and the next part go
  for (const char* part = path; *part != 0;) {
    while (*part == '/') ++part;
    const size_t length = std::strcspn(part, "/");
    const std::string_view name(part, length);
    part += length;
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      while (end > path && *--end != '/') continue;
      continue;
    }
    *end++ = '/';
    std::memmove(end, name.data(), name.size());
    end += name.size();
  }
  if (end == path) *end++ = '/';
  *end = 0;
}

bool glob_names(const char* glob, const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const bool wants_path = std::strchr(glob, '/') != nullptr;
  const char* const compared = wants_path || slash == nullptr ? path : slash + 1;
  return strnlen(compared, path_bytes_max) < path_bytes_max && fnmatch(glob, compared, 0) == 0;
}

bool is_model_name(const char* path, const std::vector<std::string>& globs) {
  if (format_by_ending(path) != nullptr || is_named_weights(path)) return true;
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_names(glob.c_str(), path); });
}

bool is_named_model(const std::string& path, const std::vector<std::string>& globs) {
  std::error_code problem;
  if (!fs::is_regular_file(path, problem)) return false;
  std::string absolute = fs::absolute(path, problem).string();
  normalize_path(absolute.data());
  absolute.resize(std::strlen(absolute.c_str()));
  return is_model_name(absolute.c_str(), globs) ||
         is_model_name(fs::canonical(path, problem).c_str(), globs);
}

bool looks_like_model(int fd) {
  // Of most files these bytes say enough, so no HeaderReader is made for them.
  char start[start_bytes];
  if (pread(fd, start, sizeof start, 0) != sizeof start) return false;
  const KnownFormat* const format = format_by_start({start, sizeof start});
  if (format == nullptr || format->start_suffices) return format != nullptr;
  auto reader = HeaderReader::of(OwnedFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), "");
  return reader && format->parse(*reader).has_value();
}

bool is_model_file(const std::string& path, const std::vector<std::string>& globs) {
  if (is_named_model(path, globs)) return true;
  std::error_code problem;
  if (!fs::is_regular_file(path, problem)) return false;
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd.is_open() && looks_like_model(fd.get());
}

}  // namespace weightpager::model
