#include "tools/report/report_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace weightpager::tools {
namespace {

tl::unexpected<Error> cannot_write(const std::string& option, const std::string& path,
                                   int error_number) {
  return fail(fmt::format("{} {}: cannot be written: {}", option, path, strerror(error_number)), {},
              error_number);
}

bool write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

/// Devices and pipes must not be replaced by a file. Neither must /dev/stdout, whatever it points
/// to.
bool is_written_in_place(const std::string& path) {
  if (path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0) return true;
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

ReportFile::ReportFile(int fd, std::string path, std::string temporary_path, std::string option)
    : fd_(fd),
      path_(std::move(path)),
      option_(std::move(option)),
      temporary_path_(std::move(temporary_path)) {}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      option_(std::move(other.option_)),
      temporary_path_(std::exchange(other.temporary_path_, {})) {}

ReportFile::~ReportFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

Result<std::optional<ReportFile>> ReportFile::create_if_asked(const std::string& path,
                                                              const std::string& option) {
  if (path.empty()) return std::nullopt;
  Result<ReportFile> created = create(path, option);
  if (!created) return forward_error(std::move(created));
  return std::optional(std::move(*created));
}

Result<ReportFile> ReportFile::create(const std::string& path, const std::string& option) {
  if (path == "-") {
    return fail(option + " -: standard output belongs to the engine",
                "give a file, or " + option + " /dev/stdout to mix them all the same");
  }
  std::string temporary_path;
  if (!is_written_in_place(path)) temporary_path = fmt::format("{}.partial-{}", path, getpid());
  const std::string& opened = temporary_path.empty() ? path : temporary_path;
  // A killed process with this process's id may have left the temporary file.
  if (!temporary_path.empty()) unlink(temporary_path.c_str());
  const int fd = open(opened.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return cannot_write(option, path, errno);
  return ReportFile(fd, path, std::move(temporary_path), option);
}

Status ReportFile::commit(const std::string& text) {
  if (!write_all(fd_, text)) return cannot_write(option_, path_, errno);
  if (temporary_path_.empty()) return {};
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0)
    return cannot_write(option_, path_, errno);
  temporary_path_.clear();
  return {};
}

}  // namespace weightpager::tools
