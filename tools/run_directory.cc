#include "tools/run_directory.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tools/cli.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

/// XDG's rule: a runtime directory that others own or can enter is not to be used.
bool is_private(const char* path) {
  struct stat status = {};
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & 0777) == 0700;
}

std::vector<std::string> parents() {
  std::vector<std::string> found;
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime && is_private(runtime)) found.emplace_back(runtime);
  if (geteuid() == 0) {
    mkdir("/run/weightpager", 0700);  // there already, or not to be had: mkdtemp will tell
    found.emplace_back("/run/weightpager");
  }
  const char* const temporary = getenv("TMPDIR");
  if (temporary && *temporary == '/') found.emplace_back(temporary);
  found.emplace_back("/tmp");
  return found;
}

}  // namespace

Result<RunDirectory> RunDirectory::create() {
  const std::vector<std::string> tried = parents();
  for (const std::string& parent : tried) {
    std::string path = parent + "/weightpager-XXXXXX";
    if (mkdtemp(path.data())) return RunDirectory(std::move(path));
  }
  const int error_number = errno;
  return fail(fmt::format("no run directory in {}: {}", shell_line(tried), strerror(error_number)),
              "set TMPDIR to a directory that can be written", error_number);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

std::vector<const telemetry::Telemetry*> RunDirectory::paged_processes() const {
  std::vector<const telemetry::Telemetry*> processes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    if (entry.path().extension() != ".telemetry") continue;
    const auto telemetry = telemetry::open(entry.path().string());
    if (!telemetry) {
      print_error(telemetry.error());
    } else if ((*telemetry)->models > 0) {
      processes.push_back(*telemetry);
    }
  }
  std::sort(processes.begin(), processes.end(),
            [](const auto* one, const auto* other) { return one->started_ns < other->started_ns; });
  return processes;
}

}  // namespace weightpager::tools
