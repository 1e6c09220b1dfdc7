#include "tools/arguments/mirror_option.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"
#include "pager/model/model.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools {
namespace {

/// The files of the models that the named ones belong to, each once.
std::vector<std::string> files_of_models(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  std::set<std::string> known;
  const auto add = [&](const std::string& path) {
    if (known.insert(path).second) all.push_back(path);
  };
  for (const std::string& file : files) {
    add(file);
    const auto model = model::open_model_to_page(file);
    if (!model) continue;
    for (const model::File& it : model->files) add(it.path);
  }
  return all;
}

/// What is not refused, but not what a mirror is for either.
void tell_of_odd_copies(const std::vector<io::CheckedCopy>& copies,
                        const std::vector<std::string>& directories, size_t files) {
  for (size_t i = 0; i < directories.size(); ++i) {
    size_t count = 0;
    bool is_elsewhere = false;
    for (const io::CheckedCopy& it : copies) {
      if (it.drive != i + 1) continue;
      ++count;
      is_elsewhere = is_elsewhere || it.identity.device != it.original.device;
    }
    if (count < files) {
      notice(
          fmt::format("--mirror {}: has copies of {} of the model's {} files; the others are "
                      "read from their own drive",
                      directories[i], count, files));
    }
    if (!is_elsewhere) {
      notice(
          fmt::format("--mirror {}: lies on the same filesystem as the model; two copies on one "
                      "drive are read no faster than one",
                      directories[i]));
    }
  }
}

}  // namespace

Option mirror_option() {
  return {0, "mirror", "DIR",
          "read the model from its copy in DIR, too, on another\n"
          "drive; may be given several times. The first time the\n"
          "copy is compared as a whole"};
}

Result<std::vector<std::string>> parse_mirrors(const Arguments& arguments) {
  const std::vector<std::string> directories = arguments.values("mirror");
  if (directories.size() > io::mirrors_max) {
    return fail(fmt::format("--mirror: {} directories; at most {} are used", directories.size(),
                            io::mirrors_max),
                "leave some out, or join drives to one volume (RAID 0)");
  }
  std::set<std::string> known;
  for (const std::string& directory : directories) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(directory, ignored)) {
      return fail(fmt::format("--mirror {}: there is no such directory", directory),
                  "name the directory that the model's copy is in", ENOTDIR);
    }
    if (known.insert(std::filesystem::canonical(directory, ignored).string()).second) continue;
    return fail(fmt::format("--mirror {}: is given twice", directory), "leave one out", EINVAL);
  }
  return directories;
}

Result<std::vector<io::CheckedCopy>> check_mirrors(const std::vector<std::string>& directories,
                                                   const std::vector<std::string>& files) {
  if (directories.empty()) return std::vector<io::CheckedCopy>{};
  if (files.empty()) {
    return fail("--mirror: no model is among the engine's arguments, so no copy can be checked",
                "name the model there, or serve it: weightpager serve MODEL --mirror DIR …");
  }
  const auto all = files_of_models(files);
  ProgressLine line;
  auto copies = io::check_copies(
      all, directories, user_cache_directory(), [&](uint64_t read_bytes, uint64_t total_bytes) {
        line.show(fmt::format("comparing the mirrors: {} of {}", format_size(read_bytes),
                              format_size(total_bytes)));
      });
  line.clear();
  if (!copies) {
    Error error = copies.error();
    error.message = "--mirror: " + error.message;
    return tl::make_unexpected(std::move(error));
  }
  tell_of_odd_copies(*copies, directories, all.size());
  return copies;
}

}  // namespace weightpager::tools
