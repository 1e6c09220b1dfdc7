#include "tools/commands/run/access_profiles.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "pager/profiles/access_profile_directory.h"
#include "pager/profiles/access_profile_record.h"
#include "pager/profiles/stored_access_profile.h"
#include "tools/cli/cli.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

/// A process that gave up its rights may have left a file of another user. Such a file must not
/// become the beginning of this user's next run.
bool is_own(const fs::path& path) {
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 && facts.st_uid == geteuid();
}

Status keep(const std::string& record_path, const std::string& access_profile_directory) {
  const auto record = profiles::AccessProfileRecord::open(record_path);
  if (!record) return tl::make_unexpected(record.error());
  const auto text = (*record)->text();
  if (!text) return {};
  const auto access_profile = profiles::parse_access_profile(*text, record_path);
  if (!access_profile) return tl::make_unexpected(access_profile.error());
  std::error_code ignored;
  fs::create_directories(access_profile_directory, ignored);
  auto file = ReportFile::create(
      profiles::access_profile_path(access_profile_directory, access_profile->chunk_bytes,
                                    access_profile->files),
      "the learned access profile:");
  if (!file) return forward_error(std::move(file));
  return file->commit(*text);
}

}  // namespace

void keep_access_profiles(const std::string& run_directory,
                          const std::string& access_profile_directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_directory, ignored)) {
    if (entry.path().extension() != ".access-profile" || !is_own(entry.path())) continue;
    if (auto kept = keep(entry.path().string(), access_profile_directory); !kept)
      print_error(kept.error());
  }
}

}  // namespace weightpager::tools
