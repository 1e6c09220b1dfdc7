#include "pager/model/recognise.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "pager/base/owned_fd.h"
#include "pager/model/header_reader.h"
#include "pager/model/parsers.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view endings[] = {".gguf", ".safetensors"};
// Below this fnmatch(3) needs no heap.
constexpr size_t path_bytes_max = 1000;

bool ends_like_model(std::string_view path) {
  return std::any_of(std::begin(endings), std::end(endings), [&](std::string_view ending) {
    return path.size() > ending.size() && strncasecmp(path.data() + path.size() - ending.size(),
                                                      ending.data(), ending.size()) == 0;
  });
}

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
  if (ends_like_model(path)) return true;
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
  constexpr uint64_t header_bytes_max = 100'000'000;
  unsigned char head[9] = {};
  if (pread(fd, head, sizeof head, 0) != sizeof head) return false;
  if (std::memcmp(head, "GGUF", 4) == 0) return true;
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, head, sizeof header_bytes);
  if (header_bytes < 2 || header_bytes > header_bytes_max || head[8] != '{') return false;
  auto reader = HeaderReader::of(OwnedFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), "");
  return reader && parse_safetensors(*reader).has_value();
}

bool is_model_file(const std::string& path, const std::vector<std::string>& globs) {
  if (is_named_model(path, globs)) return true;
  std::error_code problem;
  if (!fs::is_regular_file(path, problem)) return false;
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd.is_open() && looks_like_model(fd.get());
}

}  // namespace weightpager::model
