#include "tools/probes/disk_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <numeric>
#include <utility>

#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/window/run.h"

namespace weightpager::tools {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t file_bytes_min = uint64_t{DiskProbe::depth_max} * DiskProbe::read_bytes_max;
// As many buffers as a window has.
constexpr uint32_t pool_chunks = 128;
constexpr milliseconds single_time{150};
constexpr milliseconds many_time{250};
constexpr size_t bursts = 15;
// The quickest read may be faster than the bandwidth allows. It still gets some latency, because
// jitter is relative to latency.
constexpr double latency_ns_min = 1'000;

uint64_t now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

tl::unexpected<Error> failed_read(int error_number) {
  return fail("a read failed", "look at `dmesg`", error_number);
}

}  // namespace

FittedDisk fit_disk(const std::string& name, const ReadTimes& single, uint64_t single_bytes,
                    const ReadTimes& many, uint32_t queue_depth) {
  FittedDisk it;
  it.request_ns = many.request_ns;
  it.disk.name = name;
  it.disk.bytes_per_s = many.bytes_per_s;
  it.disk.queue_depth = queue_depth;
  const double beside_ns = static_cast<double>(single_bytes) / many.bytes_per_s * 1e9 +
                           static_cast<double>(many.request_ns);
  const std::vector<uint64_t>& times = single.read_ns;
  const auto quickest_ns = static_cast<double>(times[times.size() / 20]);
  const double mean_ns =
      std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  const double latency_ns = std::max(quickest_ns - beside_ns, latency_ns_min);
  it.disk.latency_ns = static_cast<uint64_t>(latency_ns);
  it.disk.jitter = std::max(mean_ns - beside_ns - latency_ns, 0.0) / latency_ns;
  return it;
}

Result<DiskProbe> DiskProbe::open(const std::string& path) {
  auto file = io::ModelFile::open(path);
  if (!file) return forward_error(std::move(file));
  if (!file->is_direct()) {
    return fail(fmt::format("{}: no direct reads on this filesystem", path),
                "what is read would come from the page cache: take a file on a disk");
  }
  if (file->size_bytes() < file_bytes_min) {
    return fail(fmt::format("{} has {}, expected {} or more", path, format_size(file->size_bytes()),
                            format_size(file_bytes_min)),
                "make one: weightpager model make --size 2GiB -o FILE");
  }
  const io::DeviceLimits limits = io::device_limits(file->fd());
  auto reader = io::open_best_reader({.reads_max = depth_max,
                                      .read_bytes_max = read_bytes_max,
                                      .device_read_bytes = limits.read_bytes});
  if (!reader) return forward_error(std::move(reader));
  // One chunk more, for a read that begins at the end of the last chunk.
  auto pool = HugeMemory::create(pool_chunks + 1);
  if (!pool) return forward_error(std::move(pool));
  return DiskProbe(path, std::move(*file), std::move(*reader), std::move(*pool));
}

// Reads the next bytes of the file into the next bytes of the pool.
void DiskProbe::start(uint32_t tag, uint32_t length_bytes) {
  reader_->start({.tag = tag,
                  .fd = file_.fd(),
                  .offset_bytes = offset_bytes_,
                  .length_bytes = length_bytes,
                  .buffer = pool_.chunk(0) + pool_at_bytes_});
  offset_bytes_ += length_bytes;
  if (offset_bytes_ + read_bytes_max > file_.size_bytes()) offset_bytes_ = 0;
  pool_at_bytes_ = (pool_at_bytes_ + length_bytes) % (pool_chunks * huge_page_bytes);
}

Result<ReadTimes> DiskProbe::read(uint32_t depth, uint32_t length_bytes, milliseconds time) {
  std::vector<uint64_t> started_ns(depth);
  ReadTimes times;
  uint64_t bytes = 0;
  int error_number = 0;
  const auto start_one = [&](uint32_t index) {
    started_ns[index] = now_ns(CLOCK_MONOTONIC);
    start(index, length_bytes);
  };
  const uint64_t began_ns = now_ns(CLOCK_MONOTONIC);
  const uint64_t worked_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t end_ns = began_ns + static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
  for (uint32_t index = 0; index < depth; ++index) start_one(index);
  while (reader_->reads_in_flight() > 0) {
    for (const io::Completion& completion : reader_->wait(-1).completions) {
      if (completion.error_number != 0) error_number = completion.error_number;
      const uint64_t now = now_ns(CLOCK_MONOTONIC);
      const auto index = static_cast<uint32_t>(completion.tag);
      times.read_ns.push_back(now - started_ns[index]);
      bytes += completion.length_bytes;
      if (now < end_ns) start_one(index);
    }
  }
  if (error_number != 0) return failed_read(error_number);
  const uint64_t elapsed_ns = now_ns(CLOCK_MONOTONIC) - began_ns;
  times.bytes_per_s = static_cast<double>(bytes) * 1e9 / static_cast<double>(elapsed_ns);
  times.request_ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - worked_ns) / times.read_ns.size();
  std::sort(times.read_ns.begin(), times.read_ns.end());
  return times;
}

Result<BurstTimes> DiskProbe::read_burst(uint32_t depth, uint32_t length_bytes) {
  std::array<BurstTimes, bursts> times;
  for (BurstTimes& it : times) {
    const uint64_t began_ns = now_ns(CLOCK_MONOTONIC);
    for (uint32_t index = 0; index < depth; ++index) start(index, length_bytes);
    while (reader_->reads_in_flight() > 0) {
      for (const io::Completion& completion : reader_->wait(-1).completions) {
        if (completion.error_number != 0) return failed_read(completion.error_number);
      }
      it.last_ns = now_ns(CLOCK_MONOTONIC) - began_ns;
      if (it.first_ns == 0) it.first_ns = it.last_ns;
    }
  }
  const auto share = [](const BurstTimes& it) {
    return static_cast<double>(it.first_ns) / static_cast<double>(it.last_ns);
  };
  std::sort(times.begin(), times.end(),
            [&](const BurstTimes& a, const BurstTimes& b) { return share(a) < share(b); });
  return times[bursts / 2];
}

// If a disk answers one by one, the first of eight reads comes after an eighth of the time.
Result<bool> DiskProbe::answers_together() {
  const auto burst = read_burst(8, window::read_bytes_max);
  if (!burst) return tl::make_unexpected(burst.error());
  return burst->first_ns > burst->last_ns / 2;
}

Result<FittedDisk> DiskProbe::fit(uint64_t chunk_bytes) {
  const auto run_bytes = static_cast<uint32_t>(
      window::chunks_together(window::read_bytes_max, chunk_bytes) * chunk_bytes);
  const auto depth =
      std::min<uint32_t>(static_cast<uint32_t>(io::bytes_in_flight / run_bytes), depth_max);
  const auto single = read(1, static_cast<uint32_t>(chunk_bytes), single_time);
  if (!single) return tl::make_unexpected(single.error());
  const auto many = read(depth, run_bytes, many_time);
  if (!many) return tl::make_unexpected(many.error());
  const auto is_together = answers_together();
  if (!is_together) return tl::make_unexpected(is_together.error());
  // The device had all of these reads at once.
  FittedDisk fitted = fit_disk(path_, *single, chunk_bytes, *many, depth);
  fitted.disk.answers_together = *is_together;
  return fitted;
}

}  // namespace weightpager::tools
