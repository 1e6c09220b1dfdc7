#include "tools/commands/reproduce/network_here.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/make_network.h"
#include "runtime/plan/profiler.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view folder_prefix = "weightpager-network-";
/// So young a folder may not be locked yet.
constexpr auto locking_max = std::chrono::minutes(1);

/// A new folder within `parent`.
Result<std::string> make_folder(const std::string& parent) {
  std::string path = fmt::format("{}/{}XXXXXX", parent, folder_prefix);
  if (mkdtemp(path.data()) == nullptr)
    return fail(fmt::format("{}: no folder can be made", parent), "", errno);
  return path;
}

/// Locks the folder as long as the descriptor is open; none if somebody else has locked it.
OwnedFd lock_folder(const std::string& path) {
  OwnedFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.is_open() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
  return {};
}

/// Removes what killed runs left behind.
void sweep_folders(const std::string& parent) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().starts_with(folder_prefix)) found.push_back(entry.path());
  }
  for (const fs::path& path : found) {
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, ignored);
    if (age > locking_max && lock_folder(path).is_open()) fs::remove_all(path, ignored);
  }
}

/// Whether files in the folder can be read past the page cache.
bool is_on_disk(const std::string& parent) {
  const auto folder = make_folder(parent);
  if (!folder) return false;
  const std::string path = *folder + "/probe";
  std::ofstream(path) << std::string(os_page_bytes, '\0');
  const auto file = io::ModelFile::open(path);
  const bool is_direct = file && file->is_direct();
  std::error_code ignored;
  fs::remove_all(*folder, ignored);
  return is_direct;
}

}  // namespace

std::optional<std::string> folder_on_disk(const ReproduceSettings& settings) {
  const char* const temporary = getenv("TMPDIR");
  for (const std::string& parent :
       {settings.directory, std::string(temporary == nullptr ? "" : temporary)}) {
    if (!parent.empty() && is_on_disk(parent)) return parent;
  }
  return {};
}

Reproduction without_disk(const ReproduceSettings& settings) {
  Reproduction made;
  made.lacks.push_back(
      fmt::format("measured times: {} is on no disk that can be read past the page cache, nor is "
                  "TMPDIR; give -o a folder on a disk.",
                  settings.directory));
  return made;
}

NetworkHere::NetworkHere(NetworkHere&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      lock_(std::move(other.lock_)),
      name_(std::move(other.name_)),
      description_path_(std::move(other.description_path_)),
      weights_path_(std::move(other.weights_path_)),
      network_(std::move(other.network_)) {}

NetworkHere::~NetworkHere() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<NetworkHere> NetworkHere::make(const std::string& parent, const std::string& name) {
  sweep_folders(parent);
  auto folder = make_folder(parent);
  if (!folder) return forward_error(std::move(folder));
  OwnedFd lock = lock_folder(*folder);
  NetworkHere here(std::move(*folder), std::move(lock));
  ProgressLine line;
  auto made = network::make_network(
      {.name = name, .directory = here.folder_, .on_progress = [&](uint64_t written, uint64_t all) {
         line.show_bytes(written, all);
       }});
  line.clear();
  if (!made) return forward_error(std::move(made));
  here.name_ = name;
  here.description_path_ = std::move(made->description_path);
  here.weights_path_ = std::move(made->weights_path);
  here.network_ = std::move(made->network);
  return here;
}

Result<network::Network> NetworkHere::at(const network::Resolution& resolution) const {
  return network::read_network(description_path_, resolution);
}

std::string machine_note(const ReproduceSettings& settings) {
  utsname system{};
  uname(&system);
  return fmt::format("This machine: {}, {} thread{}, Linux {}{}.", plan::processor_name(),
                     settings.threads, settings.threads == 1 ? "" : "s", system.release,
                     settings.device == infer::DeviceKind::cuda ? ", computed on its GPU" : "");
}

}  // namespace weightpager::tools
