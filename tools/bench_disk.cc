// `weightpager bench disk`: what a disk is on paper (simulate/disk_model.h), from reading it as the
// pager does: direct, whole chunks, so many at once.
//
// The speed is that of the depth that is fastest; the depth the smallest that comes within a few
// percent of it; the latency what a single read takes beyond its bytes at that speed; jitter what
// single reads take longer than the quickest of them, on average.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <vector>

#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/open_reader.h"
#include "tools/bench.h"
#include "tools/cli.h"
#include "tools/disk_file.h"
#include "tools/report_file.h"

namespace weightpager::tools {
namespace {

using simulate::DiskModel;
using Clock = std::chrono::steady_clock;

constexpr uint64_t read_bytes = chunk_bytes_max;
constexpr std::array<uint32_t, 6> depths = {1, 2, 4, 8, 16, 32};
constexpr uint32_t depth_max = 32;
constexpr uint64_t file_bytes_min = depth_max * read_bytes;
constexpr std::chrono::milliseconds time_per_depth{1500};
// How near to the fastest a depth is deep enough.
constexpr double deep_enough = 0.95;

}  // namespace

Command bench_disk_description() {
  return {.name = "weightpager bench disk",
          .purpose =
              "Measures a disk with direct reads of whole chunks, as the pager does them, for\n"
              "`weightpager bench policies --disk`. Takes ten seconds. Writes nothing.\n",
          .usage = "  weightpager bench disk FILE [OPTIONS]\n",
          .options = {{0, "json", "FILE", "write the disk for --disk"}},
          .examples =
              "  weightpager bench disk model.gguf --json disk.json\n"
              "  weightpager bench policies model.gguf --disk disk.json\n",
          .exit_status = "  0 measured, 1 the file cannot be read, 2 misuse\n"};
}

namespace {

/// Buffers in huge pages, as the pager's slots are.
class Buffers {
 public:
  Buffers() {
    memory_ =
        mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) return;
    madvise(memory_, length_bytes, MADV_HUGEPAGE);
    madvise(memory_, length_bytes, MADV_POPULATE_WRITE);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    if (is_there()) munmap(memory_, length_bytes);
  }

  bool is_there() const { return memory_ != MAP_FAILED; }
  std::byte* at(uint32_t index) const {
    const auto begin = round_up(reinterpret_cast<uintptr_t>(memory_), huge_page_bytes);
    return reinterpret_cast<std::byte*>(begin + index * read_bytes);
  }

 private:
  static constexpr uint64_t length_bytes = (depth_max + 1) * read_bytes;
  void* memory_;
};

struct Measured {
  double bytes_per_s = 0;
  std::vector<uint64_t> read_ns;  // of each read
};

class Disk {
 public:
  static Result<Disk> open(const std::string& path) {
    auto file = io::ModelFile::open(path);
    if (!file) return forward_error(std::move(file));
    if (!file->is_direct()) {
      return fail(fmt::format("{}: no direct reads on this filesystem", path),
                  "what is read would come from the page cache: take a file on a disk");
    }
    if (file->size_bytes() < file_bytes_min) {
      return fail(fmt::format("{} has {}, expected {} or more", path,
                              format_size(file->size_bytes()), format_size(file_bytes_min)),
                  "make one: weightpager model make --size 2GiB -o FILE");
    }
    const io::DeviceLimits limits = io::device_limits(file->fd());
    auto reader = io::open_best_reader({.reads_max = depth_max,
                                        .read_bytes_max = read_bytes,
                                        .device_read_bytes = limits.read_bytes});
    if (!reader) return forward_error(std::move(reader));
    return Disk(std::move(*file), std::move(*reader));
  }

  Result<Measured> measure(uint32_t depth, const Buffers& buffers) {
    const auto began = Clock::now();
    std::vector<Clock::time_point> started(depth);
    Measured measured;
    uint64_t bytes = 0;
    const auto start = [&](uint32_t index) {
      started[index] = Clock::now();
      reader_->start({.tag = index,
                      .fd = file_.fd(),
                      .offset_bytes = offset_bytes_,
                      .length_bytes = read_bytes,
                      .buffer = buffers.at(index)});
      offset_bytes_ += read_bytes;
      if (offset_bytes_ + read_bytes > file_.size_bytes()) offset_bytes_ = 0;
    };
    for (uint32_t index = 0; index < depth; ++index) start(index);
    while (reader_->reads_in_flight() > 0) {
      for (const io::Completion& completion : reader_->wait(-1).completions) {
        if (completion.error_number != 0) error_number_ = completion.error_number;
        const auto now = Clock::now();
        const auto index = static_cast<uint32_t>(completion.tag);
        measured.read_ns.push_back(nanoseconds(now - started[index]));
        bytes += completion.length_bytes;
        if (now - began < time_per_depth) start(index);
      }
    }
    if (error_number_ != 0) return fail("a read failed", "look at `dmesg`", error_number_);
    const uint64_t elapsed_ns = nanoseconds(Clock::now() - began);
    measured.bytes_per_s = static_cast<double>(bytes) * 1e9 / static_cast<double>(elapsed_ns);
    return measured;
  }

 private:
  Disk(io::ModelFile file, std::unique_ptr<io::Reader> reader)
      : file_(std::move(file)), reader_(std::move(reader)) {}

  static uint64_t nanoseconds(Clock::duration duration) {
    return static_cast<uint64_t>(std::chrono::nanoseconds(duration).count());
  }

  io::ModelFile file_;
  std::unique_ptr<io::Reader> reader_;
  uint64_t offset_bytes_ = 0;
  int error_number_ = 0;
};

DiskModel fit(const std::string& name, const std::vector<Measured>& by_depth) {
  DiskModel model;
  model.name = name;
  for (const Measured& it : by_depth)
    model.bytes_per_s = std::max(model.bytes_per_s, it.bytes_per_s);
  for (size_t i = by_depth.size(); i-- > 0;) {
    if (by_depth[i].bytes_per_s >= deep_enough * model.bytes_per_s) model.queue_depth = depths[i];
  }
  std::vector<uint64_t> single = by_depth.front().read_ns;
  std::sort(single.begin(), single.end());
  const double transfer_ns = static_cast<double>(read_bytes) / model.bytes_per_s * 1e9;
  const auto quickest_ns = static_cast<double>(single[single.size() / 20]);
  const double mean_ns =
      std::accumulate(single.begin(), single.end(), 0.0) / static_cast<double>(single.size());
  // A quickest read that beats the bandwidth still has some latency to be jittered.
  const double latency_ns = std::max(quickest_ns - transfer_ns, 10'000.0);
  model.latency_ns = static_cast<uint64_t>(latency_ns);
  model.jitter = std::max(mean_ns - transfer_ns - latency_ns, 0.0) / latency_ns;
  return model;
}

Result<DiskModel> measure_disk(const std::string& path) {
  auto disk = Disk::open(path);
  if (!disk) return forward_error(std::move(disk));
  const Buffers buffers;
  if (!buffers.is_there()) return fail("no memory for buffers", "close other programs");
  std::vector<Measured> by_depth;
  fmt::print("{:>12} {:>10} {:>16}\n", "reads at once", "GB/s", "one takes ms");
  for (const uint32_t depth : depths) {
    auto measured = disk->measure(depth, buffers);
    if (!measured) return forward_error(std::move(measured));
    std::vector<uint64_t> sorted = measured->read_ns;
    std::nth_element(sorted.begin(),
                     sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    fmt::print("{:>12} {:>10.2f} {:>16.2f}\n", depth, measured->bytes_per_s / 1e9,
               static_cast<double>(sorted[sorted.size() / 2]) / 1e6);
    by_depth.push_back(std::move(*measured));
  }
  return fit(path, by_depth);
}

}  // namespace

int bench_disk_command(const std::vector<std::string>& words) {
  const auto arguments = parse_arguments(bench_disk_description(), words);
  if (!arguments) return misuse(arguments.error());
  if (arguments->has("help")) {
    print(stdout, help_text(bench_disk_description()));
    return exit_success;
  }
  if (arguments->operands().size() != 1) {
    return misuse({"expected one file to read", "weightpager bench disk model.gguf"});
  }
  std::optional<ReportFile> json;
  if (const auto path = arguments->value("json")) {
    auto file = ReportFile::create(*path);
    if (!file) return failure(file.error());
    json.emplace(std::move(*file));
  }
  const auto disk = measure_disk(arguments->operands().front());
  if (!disk) return failure(disk.error());
  fmt::print("{}: {:.2f} GB/s, latency {} us and {:.0f}% more, {} reads of {} at once\n",
             disk->name, disk->bytes_per_s / 1e9, disk->latency_ns / 1000, disk->jitter * 100,
             disk->queue_depth, format_size(read_bytes));
  if (!json) return exit_success;
  if (auto written = json->commit(disk_json(*disk)); !written) return failure(written.error());
  return exit_success;
}

}  // namespace weightpager::tools
