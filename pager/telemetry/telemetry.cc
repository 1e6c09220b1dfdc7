#include "pager/telemetry/telemetry.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "pager/telemetry/shared_file.h"

namespace weightpager::telemetry {
namespace {

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
  if (memory == MAP_FAILED) {
    return fail(fmt::format("cannot map private counters: {}", std::strerror(errno)),
                "memory is short", errno);
  }
  return construct_in(memory);
}

}  // namespace

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Counter* mirror_read_bytes(Telemetry& telemetry, uint32_t mirror) {
  Counter* const counters[] = {nullptr, &telemetry.mirror_1_read_bytes,
                               &telemetry.mirror_2_read_bytes, &telemetry.mirror_3_read_bytes};
  return counters[mirror];
}

Result<Telemetry*> create(const std::string& directory) {
  if (directory.empty()) return create_private();

  const std::string path = fmt::format("{}/{}.telemetry", directory, getpid());
  auto memory = create_shared_file(path, sizeof(Telemetry));
  if (!memory) return forward_error(std::move(memory));
  return construct_in(*memory);
}

Result<const Telemetry*> open(const std::string& path) {
  auto memory = open_shared_file(path, sizeof(Telemetry));
  if (!memory) return forward_error(std::move(memory));
  const auto* telemetry = static_cast<const Telemetry*>(*memory);
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
