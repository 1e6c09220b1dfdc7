#include "tools/commands/run/run_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "pager/base/owned_fd.h"
#include "pager/telemetry/marks.h"
#include "tools/cli/cli.h"
#include "tools/commands/run/process_facts.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

/// XDG's rule: a runtime directory that other users own or can enter must not be used.
bool is_private(const char* path) {
  struct stat status = {};
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & 0777) == 0700;
}

/// Root's engines may become other users. These can enter the directory, but cannot list the runs.
const char* const parent_of_root = "/run/weightpager-runs";
constexpr mode_t mode_of_parent_of_root = 0711;
/// A user who knows the name may add files, but may remove only his own.
constexpr mode_t mode_for_others = 01733;

constexpr const char* name_pattern = "weightpager-XXXXXX";
/// For so long a directory may be in preparation and not say yet who owns it.
constexpr auto preparation_max = std::chrono::minutes(1);

bool is_own_directory(const char* path) {
  struct stat status = {};
  return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

std::vector<std::string> parents() {
  std::vector<std::string> found;
  if (geteuid() == 0) {
    mkdir(parent_of_root, 0700);  // there already, or not to be had: mkdtemp will tell
    const bool is_ready =
        is_own_directory(parent_of_root) && chmod(parent_of_root, mode_of_parent_of_root) == 0;
    if (is_ready) found.emplace_back(parent_of_root);
  }
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime && is_private(runtime)) found.emplace_back(runtime);
  const char* const temporary = getenv("TMPDIR");
  if (temporary && *temporary == '/') found.emplace_back(temporary);
  found.emplace_back("/tmp");
  return found;
}

/// The process that owns a directory.
struct Owner {
  uint64_t pid_namespace = 0;
  pid_t process_id = 0;
  uint64_t start_ticks = 0;
};

std::string owner_path(const std::string& directory) { return directory + "/run"; }

OwnedFd create_file(const std::string& path) {
  return OwnedFd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

/// Makes the files that a fresh directory begins with. Returns false and sets errno if that fails.
bool prepare(const std::string& directory) {
  const OwnedFd owner = create_file(owner_path(directory));
  const OwnedFd marks = create_file(telemetry::marks_path(directory));
  if (!owner.is_open() || !marks.is_open()) return false;
  const std::string text =
      fmt::format("{} {} {}\n", pid_namespace(), getpid(), start_ticks(getpid()));
  if (::write(owner.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return false;
  if (geteuid() != 0) return true;
  return fchmod(marks.get(), 0622) == 0 && chmod(directory.c_str(), mode_for_others) == 0;
}

/// Whether the owner has ended; false if that cannot be known here.
bool is_owner_gone(const fs::path& directory) {
  std::ifstream file(owner_path(directory.string()));
  Owner owner;
  if (file >> owner.pid_namespace >> owner.process_id >> owner.start_ticks) {
    return owner.pid_namespace == pid_namespace() &&
           start_ticks(owner.process_id) != owner.start_ticks;
  }
  std::error_code problem;
  const auto changed = fs::last_write_time(directory, problem);
  return !problem && fs::file_time_type::clock::now() - changed > preparation_max;
}

/// Whether a name such as "1234.telemetry" belongs to a process that runs. An engine may outlive a
/// run that was killed.
bool names_living_process(const fs::path& file) {
  const std::string name = file.filename().string();
  pid_t process_id = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), process_id);
  return parsed.ec == std::errc{} && process_id > 0 && start_ticks(process_id) != 0;
}

bool is_left_over(const fs::path& directory) {
  if (!is_owner_gone(directory)) return false;
  std::error_code problem;
  for (const auto& file : fs::directory_iterator(directory, problem)) {
    if (names_living_process(file.path())) return false;
  }
  return !problem;
}

/// Removes the directories that killed runs could not remove.
void sweep(const std::string& parent) {
  const std::string_view pattern = name_pattern;
  const std::string_view beginning = pattern.substr(0, pattern.find('X'));
  std::error_code problem;
  std::vector<fs::path> left_over;
  for (const auto& entry : fs::directory_iterator(parent, problem)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(beginning) || name.size() != pattern.size()) continue;
    if (!is_own_directory(entry.path().c_str()) || !is_left_over(entry.path())) continue;
    left_over.push_back(entry.path());
  }
  for (const fs::path& path : left_over) fs::remove_all(path, problem);
}

}  // namespace

Result<RunDirectory> RunDirectory::create() {
  const std::vector<std::string> tried = parents();
  int error_number = 0;
  for (const std::string& parent : tried) {
    sweep(parent);
    std::string path = parent + "/" + name_pattern;
    if (mkdtemp(path.data()) == nullptr) {
      error_number = errno;
      continue;
    }
    if (prepare(path)) return RunDirectory(std::move(path));
    error_number = errno;
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  return fail(fmt::format("no run directory in {}: {}", shell_line(tried), strerror(error_number)),
              "set TMPDIR to a directory that can be written", error_number);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<std::string> RunDirectory::leave(const std::string& name, std::string_view text) const {
  const std::string path = path_ + "/" + name;
  const OwnedFd file = create_file(path);
  const bool is_written = file.is_open() && write(file.get(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  // An engine of root's may become another user before it reads the file.
  if (is_written && (geteuid() != 0 || fchmod(file.get(), 0644) == 0)) return path;
  return fail(fmt::format("{}: cannot be written: {}", path, strerror(errno)),
              "set TMPDIR to a directory that can be written", errno);
}

std::vector<const telemetry::Telemetry*> RunDirectory::paged_processes() const {
  std::vector<const telemetry::Telemetry*> processes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    if (entry.path().extension() != ".telemetry") continue;
    const auto telemetry = telemetry::open(entry.path().string());
    if (!telemetry) {
      print_error(telemetry.error());
    } else if ((*telemetry)->models > 0 || (*telemetry)->started_ns > 0) {
      processes.push_back(*telemetry);
    }
  }
  std::sort(processes.begin(), processes.end(),
            [](const auto* one, const auto* other) { return one->started_ns < other->started_ns; });
  return processes;
}

}  // namespace weightpager::tools
