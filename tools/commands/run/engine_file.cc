#include "tools/commands/run/engine_file.h"

#include <elf.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "pager/base/log.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

const char* const interposer_name = "libweightpager_preload.so";

/// The paths that execvp(3) tries, in order.
std::vector<std::string> candidates(const std::string& name) {
  if (name.find('/') != std::string::npos) return {name};
  const char* const path = getenv("PATH");
  std::istringstream directories(path ? path : "/bin:/usr/bin");
  std::vector<std::string> found;
  for (std::string directory; std::getline(directories, directory, ':');) {
    found.push_back((directory.empty() ? "." : directory) + "/" + name);
  }
  return found;
}

tl::unexpected<Error> not_found(const std::string& name) {
  std::error_code ignored;
  const bool is_here = name.find('/') == std::string::npos && fs::exists(name, ignored);
  return fail(fmt::format("{}: engine not found", name),
              is_here ? fmt::format("did you mean ./{}?", name)
                      : "give its path, or add its directory to PATH",
              ENOENT);
}

tl::unexpected<Error> not_executable(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return fail(fmt::format("{}: is a directory, not an engine", path), {}, EACCES);
  }
  return fail(fmt::format("{}: is not executable", path),
              fmt::format("chmod +x {}", shell_line({path})), EACCES);
}

tl::unexpected<Error> more_rights(const std::string& path, const char* why) {
  return fail(fmt::format("{}: {}, so Linux ignores LD_PRELOAD for it", path, why),
              fmt::format("run a copy, which has no such rights: install -m 755 {} COPY",
                          shell_line({path})));
}

/// Fails if the program gains rights. Rights that the user has already, or that exec does not give,
/// do not count.
Status check_rights(const std::string& path) {
  struct stat status = {};
  struct statvfs filesystem = {};
  const bool gives_none =
      prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
      (statvfs(path.c_str(), &filesystem) == 0 && (filesystem.f_flag & ST_NOSUID) != 0);
  if (gives_none || stat(path.c_str(), &status) != 0) return {};
  if ((status.st_mode & S_ISUID) && status.st_uid != getuid()) {
    return more_rights(path, "is setuid");
  }
  if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getgid()) {
    return more_rights(path, "is setgid");
  }
  if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return more_rights(path, "has file capabilities");
  }
  return {};
}

/// A dynamically linked program names its dynamic loader in a program header.
bool names_loader(std::ifstream& file, const Elf64_Ehdr& header) {
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int index = 0; index < header.e_phnum; ++index) {
    Elf64_Phdr segment = {};
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return false;
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

/// If ld-linux-x86-64.so.2 is called by its name, it loads the libraries of LD_PRELOAD.
bool is_loader(const std::string& path) {
  std::error_code ignored;
  const std::string name = fs::canonical(path, ignored).filename().string();
  return name.starts_with("ld-") && name.find(".so") != std::string::npos;
}

enum class Linking { fit, static_program, narrow };

Linking linking_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header = {};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Linking::fit;
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Linking::narrow;
  const bool is_fit = (file && names_loader(file, header)) || is_loader(path);
  return is_fit ? Linking::fit : Linking::static_program;
}

/// Whether an argument names a program that can be preloaded; the engine may start that program.
bool names_fit_program(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin() + 1, arguments.end(), [](const std::string& argument) {
    const auto program = find_engine(argument);
    return program && linking_of(*program) == Linking::fit;
  });
}

Status check_linking(const std::string& path, const std::vector<std::string>& arguments,
                     bool has_models) {
  const Linking linking = linking_of(path);
  if (linking == Linking::fit) return {};
  if (linking == Linking::narrow) {
    return fail(fmt::format("{}: is a 32-bit program", path), "use a 64-bit build of the engine");
  }
  if (!has_models || names_fit_program(arguments)) {
    notice(path + ": is statically linked: only engines that it starts are paged");
    return {};
  }
  return fail(fmt::format("{}: is statically linked, so it ignores LD_PRELOAD", path),
              "use a dynamically linked build of the engine");
}

}  // namespace

Result<std::string> find_engine(const std::string& name) {
  std::string refused;
  for (const std::string& path : candidates(name)) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    if (fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0) return path;
    if (refused.empty()) refused = path;
  }
  if (refused.empty()) return not_found(name);
  return not_executable(refused);
}

Status check_preloadable(const std::string& path, const std::vector<std::string>& arguments,
                         bool has_models) {
  if (auto rights = check_rights(path); !rights) return rights;
  return check_linking(path, arguments, has_models);
}

Result<std::string> find_interposer() {
  std::error_code problem;
  const fs::path program = fs::read_symlink("/proc/self/exe", problem);
  const fs::path directory = program.parent_path().parent_path();
  for (const char* place : {"pager", "lib/weightpager"}) {
    const std::string path = (directory / place / interposer_name).string();
    if (!fs::exists(path, problem)) continue;
    // ld.so separates the entries of LD_PRELOAD at both characters and knows no quoting.
    if (path.find_first_of(" :") == std::string::npos) return path;
    return fail(fmt::format("{}: LD_PRELOAD takes no path with a space or a colon", path),
                "move weightpager to another directory");
  }
  return fail(fmt::format("{} is neither in {}/pager nor in {}/lib/weightpager", interposer_name,
                          directory.string(), directory.string()),
              "build it (cmake --build), or install weightpager again");
}

}  // namespace weightpager::tools
