// Finds out whether a folder can take memory of the engine's own (`run --spill`), and how fast:
// makes the same nameless file as a run, and writes to it as a run does, direct and with as many
// writes in flight. What is written does not compress, as weights do not. The file is gone
// afterwards.
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/spill/spill_file.h"
#include "pager/window/chunk_table.h"
#include "tools/commands/doctor/doctor_facts.h"
#include "tools/probes/huge_memory.h"
#include "tools/probes/mount_of.h"

namespace weightpager::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Enough to get past a drive's own cache of some megabytes, and no more: writing wears.
constexpr uint64_t written_bytes_max = 256 * MiB;
constexpr std::chrono::milliseconds writing_time_max{1000};
// As in a run.
constexpr uint32_t writes_in_flight = window::ChunkTable::leaving_max;

/// Whether the device spins, and so does not wear by writing.
std::optional<bool> is_rotational(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return std::nullopt;
  const std::string device =
      fmt::format("/sys/dev/block/{}:{}/", major(facts.st_dev), minor(facts.st_dev));
  for (const char* const queue : {"queue/rotational", "../queue/rotational"}) {
    std::ifstream file(device + queue);
    int number = 0;
    if (file >> number) return number != 0;
  }
  return std::nullopt;
}

void fill_with_noise(const HugeMemory& memory) {
  std::mt19937_64 noise(1);
  for (uint32_t chunk = 0; chunk < writes_in_flight; ++chunk) {
    auto* const words = reinterpret_cast<uint64_t*>(memory.chunk(chunk));
    std::generate_n(words, chunk_bytes_max / sizeof(uint64_t), std::ref(noise));
  }
}

/// Places are taken before the clock runs, because a run takes them many at a time.
std::vector<uint64_t> take_places(spill::SpillFile& file, uint64_t room_bytes) {
  const uint64_t count = std::min(written_bytes_max, room_bytes / 2) / chunk_bytes_max;
  std::vector<uint64_t> places;
  while (places.size() < count) {
    const auto place = file.take_place();
    if (!place) break;
    places.push_back(*place);
  }
  return places;
}

/// Writes until the time is up, or all places are written.
WritingFacts measure_writing(spill::SpillFile& file, uint64_t room_bytes) {
  const auto memory = HugeMemory::create(writes_in_flight);
  if (!memory) return {.problem = memory.error()};
  const auto reader = io::open_best_reader({.reads_max = writes_in_flight});
  if (!reader) return {.problem = reader.error()};
  fill_with_noise(*memory);
  WritingFacts facts;
  const std::vector<uint64_t> places = take_places(file, room_bytes);
  size_t next = 0;
  const auto started = Clock::now();
  const auto start_write = [&](uint64_t slot) {
    const bool is_over = next == places.size() || Clock::now() - started > writing_time_max;
    if (is_over || facts.problem) return;
    (*reader)->start_write({.tag = slot,
                            .fd = file.fd(),
                            .offset_bytes = places[next++],
                            .length_bytes = chunk_bytes_max,
                            .buffer = memory->chunk(static_cast<uint32_t>(slot))});
  };
  for (uint64_t slot = 0; slot < writes_in_flight; ++slot) start_write(slot);
  while ((*reader)->reads_in_flight() > 0) {
    for (const io::Completion& done : (*reader)->wait(-1).completions) {
      if (done.error_number != 0) {
        facts.problem = Error{fmt::format("writing failed: {}", std::strerror(done.error_number)),
                              "sudo dmesg", done.error_number};
      }
      facts.written_bytes += done.length_bytes;
      start_write(done.tag);
    }
  }
  facts.elapsed_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - started).count());
  return facts;
}

}  // namespace

SpillFacts collect_spill_facts(const std::string& folder) {
  SpillFacts facts;
  facts.folder = folder;
  auto file = spill::SpillFile::create(folder, chunk_bytes_max);
  const auto room_bytes = spill::room_bytes(folder);
  if (!file || !room_bytes) {
    facts.problem = file ? room_bytes.error() : file.error();
    return facts;
  }
  const Mount mount = mount_of(file->fd());
  facts.filesystem = mount.filesystem;
  facts.source = mount.source;
  facts.is_direct = file->is_direct();
  facts.is_rotational = is_rotational(file->fd());
  facts.room_bytes = *room_bytes;
  facts.writing = measure_writing(*file, *room_bytes);
  return facts;
}

}  // namespace weightpager::tools
