#include "pager/io/mirrors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "pager/base/owned_fd.h"
#include "pager/base/text_lines.h"
#include "pager/base/units.h"
#include "pager/io/file_checksum.h"

namespace weightpager::io {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds progress_pause{10};
constexpr const char* copies_title = "weightpager mirrors 1";

/// A file and one of its copies, by their places in a list of files.
struct Pair {
  size_t original = 0;
  size_t copy = 0;
  uint32_t drive = 0;
};

/// Files whose checksums are wanted.
struct Checked {
  struct File {
    std::string path;
    uint32_t drive = 0;
    struct stat facts {};
    Result<FileChecksum> checksum;
  };
  std::vector<File> files;
  std::vector<Pair> pairs;

  /// The place of the file of that path. Requires that it exists.
  size_t add(const std::string& path, uint32_t drive) {
    File file{path, drive, {}, FileChecksum{}};
    (void)stat(path.c_str(), &file.facts);
    files.push_back(std::move(file));
    return files.size() - 1;
  }
};

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::string copy_command(const std::string& from, const std::string& to) {
  return fmt::format("copy it anew: cp '{}' '{}'", from, to);
}

Status check_facts(const Checked::File& original, const Checked::File& copy) {
  if (is_same_file(original.facts, copy.facts)) {
    return fail(fmt::format("{} is {} itself, not a copy", copy.path, original.path),
                "a mirror is a directory with a copy, on another drive", EINVAL);
  }
  if (original.facts.st_size == copy.facts.st_size) return {};
  return fail(fmt::format("{} has {} bytes, {} has {}: it is no copy, or one that was cut short",
                          copy.path, copy.facts.st_size, original.path, original.facts.st_size),
              copy_command(original.path, copy.path), EINVAL);
}

/// The files that have a copy, and the copies.
Result<Checked> find_pairs(const std::vector<std::string>& paths,
                           const std::vector<std::string>& directories) {
  Checked checked;
  std::map<std::string, size_t> place_of_original;
  for (uint32_t i = 0; i < directories.size(); ++i) {
    bool has_any = false;
    for (const std::string& path : paths) {
      const std::string copy = find_copy(path, directories[i]);
      if (copy.empty()) continue;
      has_any = true;
      const auto [known, is_new] = place_of_original.try_emplace(path, 0);
      if (is_new) known->second = checked.add(path, 0);
      const Pair pair{known->second, checked.add(copy, i + 1), i + 1};
      if (auto fit = check_facts(checked.files[pair.original], checked.files[pair.copy]); !fit)
        return forward_error(std::move(fit));
      checked.pairs.push_back(pair);
    }
    if (!has_any) {
      return fail(fmt::format("{} has no copy of {}{}", directories[i], paths.front(),
                              paths.size() == 1 ? "" : " and of no other file of the model"),
                  fmt::format("make one: cp '{}' '{}/'", paths.front(), directories[i]), ENOENT);
    }
  }
  return checked;
}

/// A thread for each drive.
void make_checksums(Checked& checked, const std::string& cache_directory,
                    const CopyProgress& on_progress) {
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<uint64_t> left_bytes{0};
  for (const auto& file : checked.files) left_bytes += static_cast<uint64_t>(file.facts.st_size);
  std::atomic<uint32_t> working{drives_max};
  std::vector<std::thread> threads;
  for (uint32_t drive = 0; drive < drives_max; ++drive) {
    threads.emplace_back([&, drive] {
      for (auto& file : checked.files) {
        if (file.drive != drive) continue;
        uint64_t of_file_bytes = 0;
        file.checksum = checksum_of(file.path, cache_directory, [&](uint64_t bytes) {
          of_file_bytes += bytes;
          read_bytes += bytes;
          left_bytes -= bytes;
        });
        left_bytes -= static_cast<uint64_t>(file.facts.st_size) - of_file_bytes;
      }
      --working;
    });
  }
  while (working > 0) {
    std::this_thread::sleep_for(progress_pause);
    if (read_bytes > 0) on_progress(read_bytes, read_bytes + left_bytes);
  }
  for (std::thread& thread : threads) thread.join();
}

Result<CheckedCopy> compare(const Checked& checked, const Pair& pair) {
  const auto& original = checked.files[pair.original];
  const auto& copy = checked.files[pair.copy];
  for (const auto* file : {&original, &copy}) {
    if (!file->checksum) return tl::make_unexpected(file->checksum.error());
  }
  if (!original.checksum->is_of_same_content(*copy.checksum)) {
    return fail(
        fmt::format("{} has other bytes than {}: their checksums differ", copy.path, original.path),
        copy_command(original.path, copy.path), EINVAL);
  }
  return CheckedCopy{original.checksum->identity, copy.checksum->identity, copy.path, pair.drive};
}

std::string identity_text(const FileIdentity& it) {
  return fmt::format("{} {} {} {} {}", it.device, it.inode, it.size_bytes, it.modified_ns,
                     it.changed_ns);
}

/// Takes a number and the space behind it off the text.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  return true;
}

bool take_identity(std::string_view& text, FileIdentity& it) {
  it.is_settled = true;  // only such identities are written down
  return take_number(text, it.device) && take_number(text, it.inode) &&
         take_number(text, it.size_bytes) && take_number(text, it.modified_ns) &&
         take_number(text, it.changed_ns);
}

uint64_t in_flight_bytes(const DeviceLimits& limits) {
  return uint64_t{limits.queue_depth} * limits.read_bytes;
}

}  // namespace

std::string find_copy(const std::string& path, const std::string& directory) {
  constexpr int parts_max = 4;
  std::vector<fs::path> ends;
  fs::path end;
  std::error_code ignored;
  for (fs::path rest = fs::absolute(path, ignored).lexically_normal();
       rest.has_filename() && ends.size() < parts_max; rest = rest.parent_path()) {
    end = end.empty() ? rest.filename() : rest.filename() / end;
    ends.push_back(end);
  }
  std::reverse(ends.begin(), ends.end());
  for (const fs::path& it : ends) {
    const fs::path copy = fs::path(directory) / it;
    if (fs::is_regular_file(copy, ignored)) return fs::absolute(copy, ignored).string();
  }
  return "";
}

Result<std::vector<CheckedCopy>> check_copies(const std::vector<std::string>& paths,
                                              const std::vector<std::string>& directories,
                                              const std::string& cache_directory,
                                              const CopyProgress& on_progress) {
  auto checked = find_pairs(paths, directories);
  if (!checked) return forward_error(std::move(checked));
  make_checksums(*checked, cache_directory, on_progress);
  std::vector<CheckedCopy> copies;
  for (const Pair& pair : checked->pairs) {
    auto copy = compare(*checked, pair);
    if (!copy) return forward_error(std::move(copy));
    copies.push_back(std::move(*copy));
  }
  return copies;
}

std::vector<CheckedCopy> copies_of(std::span<const CheckedCopy> copies, const FileIdentity& file) {
  std::vector<CheckedCopy> found;
  std::copy_if(copies.begin(), copies.end(), std::back_inserter(found),
               [&](const CheckedCopy& it) { return it.original.holds_until(file); });
  return found;
}

std::string format_copies(std::span<const CheckedCopy> copies) {
  std::string text = fmt::format("{}\n", copies_title);
  for (const CheckedCopy& it : copies) {
    text += fmt::format("{} {} {} {}", it.drive, identity_text(it.original),
                        identity_text(it.identity), it.path);
    text.push_back('\0');  // names have line ends, if somebody wants them to
  }
  return text;
}

Result<std::vector<CheckedCopy>> parse_copies(std::string_view text, const std::string& name) {
  const auto broken = [&] { return fail(name + ": is no list of checked copies", "", EINVAL); };
  if (take_line(text) != copies_title) return broken();
  std::vector<CheckedCopy> copies;
  while (!text.empty()) {
    const size_t length = text.find('\0');
    if (length == std::string_view::npos) return broken();
    std::string_view entry = text.substr(0, length);
    text.remove_prefix(length + 1);
    CheckedCopy it;
    const bool is_read = take_number(entry, it.drive) && take_identity(entry, it.original) &&
                         take_identity(entry, it.identity) && !entry.empty();
    if (!is_read || it.drive == 0 || it.drive >= drives_max) return broken();
    it.path = entry;
    copies.push_back(std::move(it));
  }
  return copies;
}

DeviceLimits device_limits(int fd, std::span<const CheckedCopy> copies) {
  DeviceLimits together = device_limits(fd);
  uint64_t bytes = in_flight_bytes(together);
  DriveSet known = drive_bit(0);
  for (const CheckedCopy& it : copies) {
    if ((known & drive_bit(it.drive)) != 0) continue;
    known |= drive_bit(it.drive);
    const OwnedFd copy(::open(it.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const DeviceLimits limits = copy.is_open() ? device_limits(copy.get()) : DeviceLimits{};
    bytes += in_flight_bytes(limits);
    together.read_bytes = std::max(together.read_bytes, limits.read_bytes);
  }
  together.queue_depth = static_cast<uint32_t>(bytes / together.read_bytes);
  return together;
}

}  // namespace weightpager::io
