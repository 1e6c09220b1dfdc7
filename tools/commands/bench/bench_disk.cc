// `weightpager bench disk`: measures a disk for the simulator (simulate/disk_model.h), and the
// pager's work beside reading (simulate/handling.h).
//
// The speed is that of chunks of 2 MiB, as many at once as the pager has in flight. Small reads
// show the latency and the number of reads that the device takes at once. The latency is the time
// that a single read takes beyond its bytes at that speed. The number is the smallest one that
// comes within a few percent of the speed with more reads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "pager/base/units.h"
#include "tools/cli/cli.h"
#include "tools/commands/bench/bench.h"
#include "tools/formats/disk_file.h"
#include "tools/probes/disk_probe.h"
#include "tools/probes/handling_probe.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

constexpr std::array<uint32_t, 7> depths = {1, 2, 4, 8, 16, 32, 64};
constexpr uint32_t large_bytes = chunk_bytes_max;
constexpr uint32_t small_bytes = 128 * KiB;
constexpr uint32_t depth_of_pager = io::bytes_in_flight / large_bytes;
constexpr std::chrono::milliseconds time_per_depth{600};
// A depth is deep enough if it reaches this share of the highest speed.
constexpr double deep_enough = 0.95;

}  // namespace

Command bench_disk_description() {
  return {.name = "weightpager bench disk",
          .purpose =
              "Measures a disk with direct reads, as the pager makes them, and the pager's work\n"
              "beside reading, for `weightpager bench policies --disk`. Takes ten seconds.\n",
          .usage = "  weightpager bench disk FILE [OPTIONS]\n",
          .options = {{0, "json", "FILE", "write the disk for --disk"}},
          .examples =
              "  weightpager bench disk model.gguf --json disk.json\n"
              "  weightpager bench policies model.gguf --disk disk.json\n",
          .exit_status = "  0 measured, 1 the file cannot be read, 2 misuse\n"};
}

namespace {

Result<Machine> measure_machine(const std::string& path) {
  auto probe = DiskProbe::open(path);
  if (!probe) return forward_error(std::move(probe));
  fmt::print("{:>12} {:>16} {:>8} {:>16} {:>8}\n", "reads at once", "128 KiB: one ms", "GB/s",
             "2 MiB: one ms", "GB/s");
  std::vector<ReadTimes> small_ones;
  std::optional<ReadTimes> large;
  for (const uint32_t depth : depths) {
    std::array<ReadTimes, 2> measured;
    for (const size_t i : {0, 1}) {
      auto times = probe->read(depth, i == 0 ? small_bytes : large_bytes, time_per_depth);
      if (!times) return tl::make_unexpected(times.error());
      measured[i] = std::move(*times);
    }
    const auto median_ms = [](const ReadTimes& times) {
      return static_cast<double>(times.read_ns[times.read_ns.size() / 2]) / 1e6;
    };
    fmt::print("{:>12} {:>16.3f} {:>8.2f} {:>16.3f} {:>8.2f}\n", depth, median_ms(measured[0]),
               measured[0].bytes_per_s / 1e9, median_ms(measured[1]),
               measured[1].bytes_per_s / 1e9);
    if (depth == depth_of_pager) large = std::move(measured[1]);
    small_ones.push_back(std::move(measured[0]));
  }
  double fastest = 0;
  for (const ReadTimes& it : small_ones) fastest = std::max(fastest, it.bytes_per_s);
  const auto deep = std::find_if(small_ones.begin(), small_ones.end(), [&](const ReadTimes& it) {
    return it.bytes_per_s >= deep_enough * fastest;
  });
  FittedDisk fitted = fit_disk(path, small_ones.front(), small_bytes, *large,
                               depths[static_cast<size_t>(deep - small_ones.begin())]);
  const auto is_together = probe->answers_together();
  if (!is_together) return tl::make_unexpected(is_together.error());
  fitted.disk.answers_together = *is_together;
  auto handling = measure_handling(*probe);
  if (!handling) return forward_error(std::move(handling));
  handling->request_ns = fitted.request_ns;
  return Machine{fitted.disk, *handling};
}

void print_machine(const Machine& machine) {
  const auto& [disk, handling] = machine;
  const auto us = [](uint64_t ns) { return static_cast<double>(ns) / 1e3; };
  fmt::print("{}: {:.2f} GB/s, latency {:.0f} us and {:.0f}% more, {} reads at once{}\n", disk.name,
             disk.bytes_per_s / 1e9, us(disk.latency_ns), disk.jitter * 100, disk.queue_depth,
             disk.answers_together ? ", answered together" : "");
  fmt::print(
      "the pager: a fault takes {:.1f} us, a read {:.1f} and {:.1f} more if nothing else ends with "
      "it,\nshowing 2 MiB {:.1f}, taking them out {:.1f}; 128 KiB in small pages {:.1f} and "
      "{:.1f}\n",
      us(handling.fault_ns), us(handling.request_ns), us(handling.turn_ns),
      us(handling.to_show(large_bytes, 1)), us(handling.to_take_out(large_bytes, 1)),
      us(handling.to_show(small_bytes, 1)), us(handling.to_take_out(small_bytes, 1)));
}

int measure_as_asked(const Arguments& arguments) {
  if (arguments.operands().size() != 1) {
    return misuse({"expected one file to read", "weightpager bench disk model.gguf"});
  }
  std::optional<ReportFile> json;
  if (const auto path = arguments.value("json")) {
    auto file = ReportFile::create(*path);
    if (!file) return failure(file.error());
    json.emplace(std::move(*file));
  }
  const auto machine = measure_machine(arguments.operands().front());
  if (!machine) return failure(machine.error());
  print_machine(*machine);
  if (!json) return exit_success;
  if (auto written = json->commit(machine_json(*machine)); !written)
    return failure(written.error());
  return exit_success;
}

}  // namespace

int bench_disk_command(const std::vector<std::string>& words) {
  return carry_out(bench_disk_description(), words, measure_as_asked);
}

}  // namespace weightpager::tools
