#include "pager/preload/witness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "pager/base/program_file.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/error_kept.h"
#include "pager/preload/spilled_blocks.h"
#include "pager/telemetry/marks.h"

namespace weightpager::preload {
namespace {

using telemetry::leave_mark;
using telemetry::MarkKind;
using telemetry::MarkPlace;

constexpr std::string_view interposer_name = "libweightpager_preload.so";
/// Smaller files are not paged.
constexpr off_t model_bytes_min = 2 * MiB;

/// This process's id. A child that vfork made shares this memory, but has another id.
int own_process_id = 0;
bool has_ended = false;

int process_id() { return static_cast<int>(syscall(SYS_getpid)); }

/// Reads a file of /proc into the caller's memory.
size_t read_text(const char* path, char* buffer, size_t size_bytes) {
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  const ssize_t got = kernel::read(fd, buffer, size_bytes);
  syscall(SYS_close, fd);
  return got > 0 ? static_cast<size_t>(got) : 0;
}

// ---- Is it loaded, and first? ----

const void* base_of(const void* address, const char** name) {
  Dl_info facts{};
  if (address == nullptr || dladdr(address, &facts) == 0) return nullptr;
  *name = facts.dli_fname;
  return facts.dli_fbase;
}

/// If a library in front of this one answers mmap, this one sees no mapping: notes that library.
void note_hook() {
  const char* own_name = nullptr;
  const char* first_name = nullptr;
  const void* own = base_of(reinterpret_cast<const void*>(&note_hook), &own_name);
  const void* first = base_of(dlsym(RTLD_DEFAULT, "mmap"), &first_name);
  if (own == nullptr || first == nullptr || own == first) return;
  leave_mark(MarkKind::hooked, first_name == nullptr ? "" : first_name);
}

// ---- What it opens ----

char opened_path[PATH_MAX];
std::atomic<bool> has_opened{false};
std::atomic<uint64_t> opened_read_bytes{0};
/// There is one mark for each file, although a loader may open it for each thread or tensor.
std::atomic<uint64_t> opened_files[16];

bool is_new(const struct stat& facts) {
  const uint64_t key = (facts.st_dev * 0x9e3779b97f4a7c15u) ^ facts.st_ino;
  for (auto& known : opened_files) {
    uint64_t none = 0;
    if (known.load() == key) return false;
    if (known.compare_exchange_strong(none, key)) return true;
    if (none == key) return false;
  }
  return false;
}

/// The bytes that this process has read by system calls, from any file.
uint64_t bytes_read() {
  char text[128] = {};
  read_text("/proc/self/io", text, sizeof text - 1);
  const char* const number = std::strstr(text, "rchar: ");
  return number == nullptr ? 0 : std::strtoull(number + 7, nullptr, 10);
}

void note_model_opened(int fd, const struct stat& facts) {
  if (!is_new(facts)) return;
  char link[32] = "/proc/self/fd/";
  char digits[12];
  size_t count = 0;
  for (int rest = fd; count == 0 || rest > 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  std::reverse_copy(digits, digits + count, link + std::strlen(link));
  char path[PATH_MAX] = {};
  if (readlink(link, path, sizeof path - 1) < 0) return;
  leave_mark(MarkKind::opened, path, static_cast<uint64_t>(facts.st_size));
  if (has_opened.exchange(true)) return;
  std::memcpy(opened_path, path, sizeof path);
  opened_read_bytes.store(bytes_read());
}

// ---- What it starts ----

bool has_variable(char* const* environment, std::string_view name, std::string_view part) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (entry.starts_with(name) && entry.find(part, name.size()) != std::string_view::npos)
      return true;
  }
  return false;
}

bool brings_interposer(char* const* environment) {
  return has_variable(environment, "LD_PRELOAD=", interposer_name) &&
         (has_variable(environment, "WEIGHTPAGER_WINDOW=", "") ||
          has_variable(environment, "WEIGHTPAGER_ATTACH=", ""));
}

bool gets_model(char* const* arguments) {
  for (; arguments != nullptr && *arguments != nullptr; ++arguments) {
    if (is_model_name(*arguments)) return true;
  }
  return false;
}

/// Whether the program gains rights, by the kernel's rules. A program that gains none keeps
/// LD_PRELOAD.
bool gains_rights(const char* path, const struct stat& facts) {
  if ((facts.st_mode & S_ISUID) != 0 && facts.st_uid != geteuid()) return true;
  if ((facts.st_mode & S_ISGID) != 0 && facts.st_gid != getegid()) return true;
  return geteuid() != 0 && getxattr(path, "security.capability", nullptr, 0) > 0;
}

bool is_program(const char* path, struct stat& facts) {
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

/// Finds the path that execvp will use; false if there is none.
bool find_program(const char* name, char (&path)[PATH_MAX], struct stat& facts) {
  std::string_view folders = "/bin:/usr/bin";
  if (const char* const set = std::getenv("PATH")) folders = set;
  const size_t name_bytes = std::strlen(name);
  while (true) {
    const std::string_view entry = folders.substr(0, folders.find(':'));
    const std::string_view folder = entry.empty() ? "." : entry;
    if (folder.size() + name_bytes + 2 <= sizeof path) {
      std::memcpy(path, folder.data(), folder.size());
      path[folder.size()] = '/';
      std::memcpy(path + folder.size() + 1, name, name_bytes + 1);
      if (is_program(path, facts)) return true;
    }
    if (entry.size() == folders.size()) return false;
    folders.remove_prefix(entry.size() + 1);
  }
}

// ---- What its children do ----

constexpr size_t ranges_max = 64;
/// So many pages stand for all.
constexpr uint64_t samples = 1024;

Range forked_ranges[ranges_max];
size_t forked_range_count = 0;
int forked_from = 0;

uint64_t forked_bytes() {
  uint64_t bytes = 0;
  for (size_t i = 0; i < forked_range_count; ++i)
    bytes += forked_ranges[i].end - forked_ranges[i].begin;
  return bytes;
}

/// Notes about how much of its parent's weights this child touched: of pages at equal distances, it
/// counts those that are in the child's page table. The kernel does not tell a process that gave up
/// its rights.
void note_touched() {
  const int pages =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (pages < 0) return;
  const uint64_t step = round_up(forked_bytes() / samples + 1, os_page_bytes);
  uint64_t touched = 0;
  for (size_t i = 0; i < forked_range_count; ++i) {
    const Range& range = forked_ranges[i];
    for (uintptr_t at = range.begin; at < range.end; at += step) {
      uint64_t entry = 0;
      const auto place = static_cast<off_t>(at / os_page_bytes * sizeof entry);
      if (kernel::pread(pages, &entry, sizeof entry, place) != sizeof entry) continue;
      constexpr uint64_t is_present = uint64_t{1} << 63;
      if ((entry & is_present) != 0) touched += std::min<uint64_t>(step, range.end - at);
    }
  }
  syscall(SYS_close, pages);
  leave_mark(MarkKind::child_touched, "", touched);
}

}  // namespace

void note_loaded(const std::string& run_directory) {
  telemetry::leave_marks_in(run_directory);
  own_process_id = process_id();
  char program[PATH_MAX] = {};
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) program[0] = '\0';
  leave_mark(MarkKind::loaded, program);
  note_hook();
}

void note_opened(int fd, int flags) {
  if (fd < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) return;
  if (!is_active() || has_served()) return;
  const ErrorKept kept;
  struct stat facts;
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < model_bytes_min) return;
  if (!is_model_file(fd)) return;
  begin_spilling_for_reader();
  note_model_opened(fd, facts);
}

void note_plain_mapping(size_t length, int protection, int flags, int fd) {
  if (length < model_bytes_min || (protection & PROT_EXEC) != 0) return;
  const ErrorKept kept;
  if (!is_model_file(fd)) return;
  const bool is_shared_writable = (protection & PROT_WRITE) != 0 && (flags & MAP_PRIVATE) == 0;
  MarkPlace place = is_shared_writable ? MarkPlace::shared_writable : MarkPlace::other;
  if ((flags & MAP_FIXED) != 0) place = MarkPlace::fixed;
  leave_mark(MarkKind::mapped_plain, "", length, place);
}

void note_start(Start start, const char* path, bool is_searched, char* const* arguments,
                char* const* environment) {
  if (path == nullptr || !is_active()) return;
  const ErrorKept kept;
  struct stat facts;
  char found[PATH_MAX];
  if (is_searched && std::strchr(path, '/') == nullptr) {
    if (!find_program(path, found, facts)) return;
    path = found;
  } else if (!is_program(path, facts)) {
    return;
  }
  const bool is_own = process_id() == own_process_id;
  if (start == Start::in_its_place && is_own && forked_from != 0)
    leave_mark(MarkKind::child_started, path);
  const uint64_t has_model = gets_model(arguments) ? 1 : 0;
  const ProgramFile program = program_behind(path);
  // The kernel gives a script no rights, but may give some to the program that reads the script.
  const char* const read_by = program.is_script() ? program.interpreter : path;
  if (program.is_script() && stat(read_by, &facts) != 0) return;
  if (program.preloading != Preloading::works) {
    leave_mark(MarkKind::cannot_load, path, has_model);
  } else if (gains_rights(read_by, facts)) {
    leave_mark(MarkKind::gains_rights, path, has_model);
  } else if (!brings_interposer(environment)) {
    leave_mark(MarkKind::lost_environment, path, has_model);
  }
}

void note_paging() { leave_mark(MarkKind::paging, ""); }

void note_forking() { leave_mark(MarkKind::forking, ""); }

void note_forked(const Range* ranges, size_t count) {
  const int parent = own_process_id;
  own_process_id = process_id();
  has_ended = false;
  if (count > 0) {
    forked_from = parent;
    forked_range_count = std::min(count, ranges_max);
    std::copy_n(ranges, forked_range_count, forked_ranges);
  }
  // A child of such a child, for example a daemon, has the same file in its memory.
  leave_mark(MarkKind::forked, "", static_cast<uint64_t>(forked_from));
}

void note_end() {
  if (has_ended || process_id() != own_process_id) return;
  has_ended = true;
  const ErrorKept kept;
  if (forked_from != 0) note_touched();
  if (opened_path[0] == '\0' || has_served()) return;
  leave_mark(MarkKind::read, opened_path, bytes_read() - opened_read_bytes.load());
}

}  // namespace weightpager::preload
