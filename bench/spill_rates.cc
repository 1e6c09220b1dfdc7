// How fast chunks leave for a spill file and come back (pager/spill, pager/io), beside the same
// bytes one request after the other, as `dd oflag=direct` and `dd iflag=direct` do.
//
//     build/release/bench/spill_rates FOLDER [MiB, 1024 unless given] [in flight, 8 unless given]
//
// Each round makes two new files of that size in the folder, so that both ways write into blocks
// that are reserved and have never been written; then both write the same places once more, and
// read them. The table has the medians of five rounds in GB/s. The buffers are in huge pages and in
// no cache.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "bench/raw_reads.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/spill/spill_file.h"

namespace weightpager {
namespace {

constexpr uint32_t spilled_bytes = 2 * MiB;
constexpr int rounds = 5;

struct Asked {
  std::string folder;
  uint64_t chunks = 512;
  uint32_t in_flight = 8;
};

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "spill_rates: {}\n", why);
  std::exit(1);
}

spill::SpillFile file_with_places(const Asked& asked, std::vector<uint64_t>& places) {
  auto file = spill::SpillFile::create(asked.folder, spilled_bytes);
  if (!file) give_up(file.error().message + ": " + file.error().hint);
  places.clear();
  while (places.size() < asked.chunks) {
    const auto place = file->take_place();
    if (!place) give_up(std::strerror(file->last_error()));
    places.push_back(*place);
  }
  return std::move(*file);
}

/// All places once, with so many in flight.
void move_together(io::Reader& reader, const spill::SpillFile& file,
                   const std::vector<uint64_t>& places, const RawBuffers& buffers,
                   uint32_t in_flight, bool is_write) {
  size_t next = 0;
  while (next < places.size() || reader.reads_in_flight() > 0) {
    for (; next < places.size() && reader.reads_in_flight() < in_flight; ++next) {
      std::byte* buffer = buffers.at(next % RawBuffers::count);
      if (is_write) {
        reader.start_write({next, file.fd(), places[next], spilled_bytes, buffer});
      } else {
        reader.start({next, file.fd(), places[next], spilled_bytes, buffer});
      }
    }
    for (const io::Completion& it : reader.wait(-1).completions) {
      if (it.length_bytes != spilled_bytes) give_up(std::strerror(it.error_number));
    }
  }
}

void move_singly(const spill::SpillFile& file, const std::vector<uint64_t>& places,
                 const RawBuffers& buffers, bool is_write) {
  for (size_t i = 0; i < places.size(); ++i) {
    std::byte* buffer = buffers.at(i % RawBuffers::count);
    const auto offset = static_cast<off_t>(places[i]);
    const ssize_t bytes = is_write ? pwrite(file.fd(), buffer, spilled_bytes, offset)
                                   : pread(file.fd(), buffer, spilled_bytes, offset);
    if (bytes != ssize_t{spilled_bytes}) give_up(std::strerror(errno));
  }
}

double gb_per_second(uint64_t bytes, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(bytes) / 1e9 / elapsed.count();
}

int measure(const Asked& asked) {
  auto reader = io::open_best_reader({.reads_max = asked.in_flight});
  if (!reader) give_up(reader.error().message);
  const RawBuffers buffers;
  for (uint64_t i = 0; i < RawBuffers::count; ++i) std::memset(buffers.at(i), 1, spilled_bytes);
  constexpr const char* steps[] = {"first write", "write again", "read"};
  std::vector<double> together[3], singly[3];
  std::vector<uint64_t> places;
  const uint64_t bytes = asked.chunks * spilled_bytes;
  for (int round = 0; round < rounds; ++round) {
    const spill::SpillFile a = file_with_places(asked, places);
    const spill::SpillFile b = file_with_places(asked, places);
    for (int step = 0; step < 3; ++step) {
      const bool is_write = step < 2;
      together[step].push_back(gb_per_second(
          bytes, [&] { move_together(**reader, a, places, buffers, asked.in_flight, is_write); }));
      singly[step].push_back(
          gb_per_second(bytes, [&] { move_singly(b, places, buffers, is_write); }));
    }
  }
  fmt::print("| GB/s | {}, {} in flight | one after the other |\n|---|---:|---:|\n",
             (*reader)->name(), asked.in_flight);
  for (int step = 0; step < 3; ++step) {
    fmt::print("| {} | {:.2f} | {:.2f} |\n", steps[step], median(together[step]),
               median(singly[step]));
  }
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int count, char** words) {
  if (count < 2) weightpager::give_up("usage: spill_rates FOLDER [MiB] [in flight]");
  weightpager::Asked asked{.folder = words[1]};
  if (count > 2) asked.chunks = std::strtoull(words[2], nullptr, 10) / 2;
  if (count > 3) asked.in_flight = static_cast<uint32_t>(std::strtoul(words[3], nullptr, 10));
  if (asked.chunks == 0 || asked.in_flight == 0) weightpager::give_up("nothing to write");
  return weightpager::measure(asked);
}
