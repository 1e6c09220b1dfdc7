#include "pager/telemetry/telemetry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

namespace weightpager::telemetry {
namespace {

/// Closes on leaving; a mapping outlives its descriptor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

tl::unexpected<Error> fail_to(const char* verb, const std::string& path, int error_number,
                              std::string hint = {}) {
  return fail(fmt::format("cannot {} {}: {}", verb, path, std::strerror(error_number)),
              std::move(hint), error_number);
}

/// This process's counters, in zeroed pages.
Telemetry* construct_in(void* memory) {
  auto* telemetry = new (memory) Telemetry;
  telemetry->process_id = getpid();
  const std::string_view command = program_invocation_short_name;
  command.copy(telemetry->command, sizeof telemetry->command - 1);
  return telemetry;
}

Result<Telemetry*> create_private() {
  void* memory =
      mmap(nullptr, sizeof(Telemetry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_to("map", "private counters", errno, "memory is short");
  return construct_in(memory);
}

}  // namespace

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Result<Telemetry*> create(const std::string& directory) {
  if (directory.empty()) return create_private();

  const std::string path = fmt::format("{}/{}.telemetry", directory, getpid());
  // A process that starts another program in its place (exec) keeps its id: what lies there is its
  // former self's, or an earlier process's with the same id.
  unlink(path.c_str());
  const Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (file.number < 0) {
    return fail_to("create", path, errno,
                   "make the directory writable, or set WEIGHTPAGER_RUN_DIR");
  }
  // Not ftruncate: on a full disk the first touch of a hole would kill the engine.
  if (const int error_number = posix_fallocate(file.number, 0, sizeof(Telemetry))) {
    return fail_to("make room for", path, error_number, "its filesystem may be full: see `df`");
  }
  void* memory =
      mmap(nullptr, sizeof(Telemetry), PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0);
  if (memory == MAP_FAILED) return fail_to("map", path, errno);
  return construct_in(memory);
}

Result<const Telemetry*> open(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0)
    return fail_to("open", path, errno, "the process may not be under weightpager");

  // Touching a mapping beyond its file's end would kill the reader.
  struct stat status;
  if (fstat(file.number, &status) != 0) return fail_to("look at", path, errno);
  if (status.st_size != sizeof(Telemetry)) {
    return fail(
        fmt::format("{} has {} bytes, expected {}", path, status.st_size, sizeof(Telemetry)),
        "it is from another version of weightpager, or was cut off: remove it");
  }

  void* memory = mmap(nullptr, sizeof(Telemetry), PROT_READ, MAP_SHARED, file.number, 0);
  if (memory == MAP_FAILED) return fail_to("map", path, errno);
  const auto* telemetry = static_cast<const Telemetry*>(memory);
  const uint32_t magic = telemetry->magic;
  const uint32_t version = telemetry->version;
  if (magic == telemetry_magic && version == telemetry_version) return telemetry;

  close(telemetry);
  return fail(fmt::format("{} has magic {:#x}, version {}; expected {:#x}, version {}", path, magic,
                          version, telemetry_magic, telemetry_version),
              "it is from another version of weightpager, or not telemetry: remove it");
}

void close(const Telemetry* telemetry) {
  munmap(const_cast<Telemetry*>(telemetry), sizeof(Telemetry));
}

}  // namespace weightpager::telemetry
