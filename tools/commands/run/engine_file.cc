#include "tools/commands/run/engine_file.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
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

/// A program, and the beginning of what is told of it.
struct Subject {
  std::string path;
  std::string text;  // "engine:"; of who reads a script, "run.sh: its interpreter /bin/sh"
};

tl::unexpected<Error> more_rights(const Subject& subject, const char* why) {
  return fail(fmt::format("{} {}, so Linux ignores LD_PRELOAD for it", subject.text, why),
              fmt::format("run a copy, which has no such rights: install -m 755 {} COPY",
                          shell_line({subject.path})));
}

/// Fails if the program gains rights. Rights that the user has already, or that exec does not give,
/// do not count.
Status check_rights(const Subject& subject) {
  const std::string& path = subject.path;
  struct stat status = {};
  struct statvfs filesystem = {};
  const bool gives_none =
      prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
      (statvfs(path.c_str(), &filesystem) == 0 && (filesystem.f_flag & ST_NOSUID) != 0);
  if (gives_none || stat(path.c_str(), &status) != 0) return {};
  if ((status.st_mode & S_ISUID) && status.st_uid != getuid()) {
    return more_rights(subject, "is setuid");
  }
  if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getgid()) {
    return more_rights(subject, "is setgid");
  }
  if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return more_rights(subject, "has file capabilities");
  }
  return {};
}

/// If ld-linux-x86-64.so.2 is called by its name, it loads the libraries of LD_PRELOAD.
ProgramFile behind(const std::string& path) {
  std::error_code ignored;
  const std::string whole = fs::canonical(path, ignored).string();
  return program_behind(whole.empty() ? path.c_str() : whole.c_str());
}

/// Whether an argument names a program that can be preloaded; the engine may start that program.
bool names_fit_program(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin() + 1, arguments.end(), [](const std::string& argument) {
    const auto program = find_engine(argument);
    return program && behind(*program).preloading == Preloading::works;
  });
}

/// `#!/usr/bin/env python3` leads on to python3; "" if the first line leads nowhere else.
std::string started_by_env(const ProgramFile& program) {
  if (fs::path(program.interpreter).filename() != "env") return "";
  std::istringstream words(program.argument);
  for (std::string word; words >> word;) {
    if (word.starts_with('-') || word.find('=') != std::string::npos) continue;
    const auto found = find_engine(word);
    return found ? *found : "";
  }
  return "";
}

tl::unexpected<Error> no_loader(const Subject& subject, const char* loader) {
  return fail(fmt::format("{} its loader {} is not there", subject.text, loader),
              "install the C library that it was built for, or use a build for this system",
              ENOENT);
}

Status check_program(const Subject& subject, const ProgramFile& program,
                     const std::vector<std::string>& arguments, bool has_models) {
  if (auto rights = check_rights(subject); !rights) return rights;
  if (program.preloading == Preloading::narrow || program.preloading == Preloading::other_machine ||
      program.preloading == Preloading::other_c_library) {
    const Unloadable words = unloadable(program);
    return fail(fmt::format("{} {}", subject.text, words.what), words.cure);
  }
  const bool is_static = program.preloading == Preloading::static_linked;
  if (is_static && has_models && !names_fit_program(arguments)) {
    const Unloadable words = unloadable(program);
    return fail(fmt::format("{} {}, so it ignores LD_PRELOAD", subject.text, words.what),
                words.cure);
  }
  if (is_static)
    notice(subject.text + " is statically linked: only engines that it starts are paged");
  if (is_static) return {};
  if (program.loader[0] != '\0' && access(program.loader, F_OK) != 0)
    return no_loader(subject, program.loader);
  if (program.is_go) {
    notice(subject.text +
           " is a Go program, which calls the kernel itself: of its files and memory only those of "
           "its C libraries are paged, and those of programs that it starts");
  }
  return {};
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

Unloadable unloadable(const ProgramFile& program) {
  switch (program.preloading) {
    case Preloading::narrow:
      return {"is a 32-bit program", "use a 64-bit build of the engine"};
    case Preloading::other_machine:
      return {"is a program for another kind of processor", "use a build of the engine for x86-64"};
    case Preloading::other_c_library:
      return {fmt::format("is built for another C library (its loader is {})", program.loader),
              "use a build of the engine for glibc, as Debian and Fedora have it, not Alpine"};
    default:
      return {program.is_go ? "is a statically linked Go program" : "is statically linked",
              "use a dynamically linked build of the engine"};
  }
}

Status check_preloadable(const std::string& path, const std::vector<std::string>& arguments,
                         bool has_models) {
  const ProgramFile program = behind(path);
  if (!program.is_script())
    return check_program({path, path + ":"}, program, arguments, has_models);
  const auto read_by = [&](const std::string& reader) {
    return Subject{reader, fmt::format("{}: its interpreter {}", path, reader)};
  };
  auto fit = check_program(read_by(program.interpreter), program, arguments, has_models);
  const std::string next = started_by_env(program);
  if (!fit || next.empty()) return fit;
  return check_program(read_by(next), behind(next), arguments, has_models);
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
