#include "tools/commands/run/spill_choice.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "pager/base/units.h"
#include "pager/fault/userfaultfd.h"
#include "pager/model/model.h"
#include "pager/spill/kept_folder.h"
#include "pager/spill/spill_file.h"
#include "tools/commands/run/run.h"

namespace weightpager::tools {
namespace {

constexpr uint64_t room_bytes_min = 4 * GiB;

/// The engine may change its directory.
std::string absolute_folder(const std::string& folder) {
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(folder, failed);
  return failed ? folder : absolute.lexically_normal().string();
}

/// Where large temporary files lie on most machines: /tmp is often in memory.
std::string folder_otherwise() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != 0 ? folder : "/var/tmp";
}

/// Nobody who did not ask for spilling shall wait for a full disk. What engines read takes no room,
/// but what they write does.
Status check_room(const std::string& folder) {
  const auto room_bytes = spill::room_bytes(folder);
  rlimit longest{};
  const bool is_short = getrlimit(RLIMIT_FSIZE, &longest) == 0 &&
                        longest.rlim_cur != RLIM_INFINITY && longest.rlim_cur < room_bytes_min;
  if (room_bytes && *room_bytes >= room_bytes_min && !is_short) return {};
  return fail(fmt::format("{} has no room for {}", folder, format_size(room_bytes_min)),
              "name a folder on another disk: --spill DIR");
}

/// Makes a spill file where the engine will make one, and looks for what serving memory takes.
Status check_spilling(const RunOptions& options) {
  if (auto file = spill::SpillFile::create(options.spill_folder, chunk_bytes_max); !file)
    return forward_error(std::move(file));
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  if (!uffd->has_move()) {
    return fail("--spill: this kernel cannot move pages (UFFDIO_MOVE)",
                "Linux 6.8 and later can; without --spill weights that are mapped are served");
  }
  if (uffd->is_user_mode_only()) {
    return fail("--spill: no right to serve faults inside system calls",
                "setfacl -m u:$USER:rw /dev/userfaultfd");
  }
  if (options.mapper == "copy") {
    return fail("--spill and --mapper copy exclude each other",
                "with auto, move, collapse and module what the engine writes can be taken out");
  }
  return {};
}

}  // namespace

const char* name_of(SpillScope spilling) {
  switch (spilling) {
    case SpillScope::none:
      return "none";
    case SpillScope::of_readers:
      return "readers";
    case SpillScope::of_all:
      break;
  }
  return "all";
}

Status choose_spilling(RunOptions& options) {
  if (options.spilling == SpillScope::none) return {};
  if (options.spilling == SpillScope::of_readers) options.spill_folder = folder_otherwise();
  options.spill_folder = absolute_folder(options.spill_folder);
  if (!options.kept_folder.empty()) {
    options.kept_folder = absolute_folder(options.kept_folder);
    if (auto usable = spill::check_kept_folder(options.kept_folder); !usable) return usable;
  }
  auto works = check_spilling(options);
  if (options.spilling == SpillScope::of_all) return works;
  if (works) works = check_room(options.spill_folder);
  if (works) return {};
  options.spill_lack = works.error().message + "; " + works.error().hint;
  options.spilling = SpillScope::none;
  options.spill_folder.clear();
  return {};
}

void choose_profile(RunOptions& options, const std::vector<std::string>& models) {
  if (!options.profile || options.spilling != SpillScope::of_all) return;
  options.profile = std::any_of(models.begin(), models.end(), [](const std::string& path) {
    const auto model = model::open_model_file(path);
    return model && !model->experts.empty();
  });
}

}  // namespace weightpager::tools
