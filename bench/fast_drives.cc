// Whether the pager is as fast as the drive: passes over a model through a window, beside the same
// reads when nobody uses what they bring.
//
// The engine touches a byte of each chunk and computes nothing, so reading is all that a pass does.
// A file on tmpfs stands for a drive that is faster than this machine has: there a read is a copy
// that a processor makes. What threads used is told apart by their names, so that the copies are
// not counted as the pager's work.
//
// One line of JSON for each mapper, window and size of chunks, and a table. A round is so many
// passes by the pager, then by each reader as many bytes, in requests of the same size, with as
// many in flight. Rates and processor times are those of the median round. With --speeds a drive of
// that speed is pretended instead (bench/pretended_drives.h), or a volume that is striped over
// several.
//
//     build/release/bench/fast_drives FILE [--json FILE]   (FILE: 1 GiB or more)
#include <fmt/format.h>

#include <cxxopts.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/pretended_drives.h"
#include "bench/raw_reads.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "pager/model/model.h"
#include "pager/pager.h"
#include "pager/policy/policy.h"
#include "pager/telemetry/telemetry.h"
#include "pager/window/run.h"

namespace weightpager {
namespace {

using Json = nlohmann::ordered_json;
using telemetry::Telemetry;

constexpr int settling_passes = 3;
constexpr std::chrono::milliseconds idle_time{10};

struct Setting {
  std::string mapper;
  uint64_t window_percent = 0;
  uint64_t chunk_bytes = 0;
  PretendedDrives drives;  // of no speed: the file's own
};

struct Rounds {
  uint64_t passes = 4;
  uint64_t rounds = 5;
};

/// Processor time of this process's threads so far, by the name of the thread. The kernel's workers
/// for a ring are threads of the process, too: "iou-wrk-…".
std::map<std::string, double> thread_seconds() {
  std::map<std::string, double> seconds;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    uint64_t run_ns = 0;
    std::getline(std::ifstream(task.path() / "comm"), name);
    std::ifstream(task.path() / "schedstat") >> run_ns;
    if (name.starts_with("iou-wrk")) name = "iou-wrk";
    seconds[name] += static_cast<double>(run_ns) / 1e9;
  }
  return seconds;
}

/// What one side of a round did.
struct Leg {
  double bytes = 0;
  double seconds = 0;
  std::map<std::string, double> thread_seconds;

  double rate() const { return bytes / seconds; }
  double seconds_per_GiB(const std::string& name) const {
    const auto found = thread_seconds.find(name);
    return found == thread_seconds.end() ? 0 : found->second / (bytes / GiB);
  }
};

/// `act` returns how many bytes came.
template <typename Act>
Leg timed(Act act) {
  auto threads = thread_seconds();
  const uint64_t begin_ns = telemetry::monotonic_ns();
  Leg leg;
  leg.bytes = static_cast<double>(act());
  leg.seconds = static_cast<double>(telemetry::monotonic_ns() - begin_ns) / 1e9;
  leg.thread_seconds = thread_seconds();
  for (auto& [name, seconds] : leg.thread_seconds) seconds -= threads[name];
  return leg;
}

template <typename Value>
double median_of(const std::vector<Leg>& legs, Value value) {
  std::vector<double> values;
  for (const Leg& leg : legs) values.push_back(value(leg));
  return median(std::move(values));
}

/// The reads that a pager makes of one file, with nobody behind them.
class RawReader {
 public:
  template <typename Open>
  static Result<RawReader> open(const io::ModelFile& file, uint64_t chunk_bytes, Open open) {
    const io::DeviceLimits device = io::device_limits(file.fd());
    RawReader it(file);
    it.length_bytes_ = static_cast<uint32_t>(
        window::chunks_together(window::read_bytes_max, chunk_bytes) * chunk_bytes);
    it.depth_ = static_cast<uint32_t>(std::clamp<uint64_t>(
        uint64_t{device.queue_depth} * device.read_bytes / it.length_bytes_, 1, 64));
    auto reader = open({.reads_max = it.depth_, .device_read_bytes = device.read_bytes});
    if (!reader) return forward_error(std::move(reader));
    it.reader_ = *std::move(reader);
    return it;
  }

  uint64_t read(const RawBuffers& buffers, double bytes) {
    const auto reads = static_cast<uint64_t>(bytes) / length_bytes_;
    WP_ASSERT(read_raw(*reader_, file_, buffers, reads, length_bytes_, depth_));
    return reads * length_bytes_;
  }

 private:
  explicit RawReader(const io::ModelFile& file) : file_(file) {}
  const io::ModelFile& file_;
  uint32_t length_bytes_ = 0;
  uint32_t depth_ = 0;
  std::unique_ptr<io::Reader> reader_;
};

/// Nothing is read any more.
void wait_until_idle(const Telemetry& telemetry) {
  for (uint64_t before = UINT64_MAX; before != telemetry.read_bytes;) {
    before = telemetry.read_bytes;
    std::this_thread::sleep_for(idle_time);
  }
}

Json row_of(const Setting& setting, const Telemetry& telemetry, const std::vector<Leg>& paged,
            const std::map<std::string, std::vector<Leg>>& raw) {
  const auto rate = [](const Leg& leg) { return leg.rate(); };
  Json row = {{"mapper", telemetry.mapper},
              {"reader", telemetry.reader},
              {"window_percent", setting.window_percent},
              {"chunk_bytes", setting.chunk_bytes},
              {"drives", setting.drives.drives},
              {"bytes_per_s", median_of(paged, rate)}};
  double best = setting.drives.bytes_per_s;
  if (best > 0) row["raw_bytes_per_s"] = {{"pretended", best}};
  for (const auto& [name, legs] : raw) {
    row["raw_bytes_per_s"][name] = median_of(legs, rate);
    best = std::max(best, median_of(legs, rate));
  }
  row["of_raw"] = median_of(paged, rate) / best;
  for (const auto& [name, seconds] : paged.back().thread_seconds) {
    row["cpu_s_per_GiB"][name] =
        median_of(paged, [&](const Leg& leg) { return leg.seconds_per_GiB(name); });
  }
  return row;
}

Result<Json> measure(const std::string& path, const io::ModelFile& file, const model::Model& model,
                     const Setting& setting, const Rounds& rounds, const RawBuffers& buffers) {
  auto telemetry = telemetry::create("");
  if (!telemetry) return forward_error(std::move(telemetry));
  PagerOptions options;
  options.window_bytes =
      round_down(file.size_bytes() * setting.window_percent / 100, chunk_bytes_max);
  options.mapper = setting.mapper;
  options.chunk_bytes = setting.chunk_bytes;
  options.policy = "pin-stream";
  options.device = io::device_limits(file.fd());
  options.telemetry = *telemetry;
  options.gets_memory_first = true;
  const bool is_pretended = setting.drives.bytes_per_s > 0;
  if (is_pretended) {
    options.device = {.read_bytes = chunk_bytes_max, .queue_depth = 16};
    options.open_reader = [&](const io::ReaderOptions& wanted) {
      return Result<std::unique_ptr<io::Reader>>(
          std::make_unique<PretendedReader>(setting.drives, wanted));
    };
  }
  auto pager = Pager::start(options);
  if (!pager) return forward_error(std::move(pager));
  RegionRequest request;
  request.path = request.name = path;
  request.length_bytes = file.size_bytes();
  request.model = &model;
  const auto region = (*pager)->add_region(request);
  if (!region) return tl::make_unexpected(region.error());

  const auto pass = [&] {
    for (uint64_t at = 0; at < file.size_bytes(); at += setting.chunk_bytes) {
      static_cast<void>(*reinterpret_cast<const volatile char*>(*region + at));
    }
  };
  for (int i = 0; i < settling_passes; ++i) pass();

  auto uring = RawReader::open(file, setting.chunk_bytes, io::open_uring_reader);
  auto pread = RawReader::open(file, setting.chunk_bytes, io::open_pread_reader);
  if (!uring) return forward_error(std::move(uring));
  if (!pread) return forward_error(std::move(pread));
  std::vector<Leg> paged;
  std::map<std::string, std::vector<Leg>> raw;
  for (uint64_t round = 0; round < rounds.rounds; ++round) {
    paged.push_back(timed([&] {
      const uint64_t before = (*telemetry)->read_bytes;
      for (uint64_t i = 0; i < rounds.passes; ++i) pass();
      return (*telemetry)->read_bytes - before;
    }));
    wait_until_idle(**telemetry);
    if (is_pretended) continue;
    const double bytes = paged.back().bytes;
    raw["io_uring"].push_back(timed([&] { return uring->read(buffers, bytes); }));
    raw["pread"].push_back(timed([&] { return pread->read(buffers, bytes); }));
  }
  Json row = row_of(setting, **telemetry, paged, raw);
  (*pager)->remove(*region, file.size_bytes());
  pager->reset();
  telemetry::close(*telemetry);
  return row;
}

void print(const Json& row) {
  std::string raw;
  for (const auto& [name, rate] : row["raw_bytes_per_s"].items()) {
    raw += fmt::format(" {} {:.2f}", name, rate.get<double>() / 1e9);
  }
  std::string processors;
  for (const auto& [name, seconds] : row["cpu_s_per_GiB"].items()) {
    if (seconds.get<double>() < 0.0005) continue;
    processors += fmt::format(" {} {:.3f}", name, seconds.get<double>());
  }
  fmt::print("| {} | {} | {} % | {} KiB | {:.2f} |{} | {:.2f} |{} |\n",
             row["mapper"].get<std::string>(), row["reader"].get<std::string>(),
             row["window_percent"].get<uint64_t>(), row["chunk_bytes"].get<uint64_t>() / KiB,
             row["bytes_per_s"].get<double>() / 1e9, raw, row["of_raw"].get<double>(), processors);
  std::fflush(stdout);
}

int run(const std::string& path, const std::vector<Setting>& settings, const Rounds& rounds,
        const std::string& json_path) {
  const auto file = io::ModelFile::open(path);
  const auto model = model::open_model_file(path);
  if (!file || !model) {
    fmt::print(stderr, "{}\n", file ? model.error().message : file.error().message);
    return 1;
  }
  const RawBuffers buffers;
  Json rows = Json::array();
  fmt::print(
      "| mapper | reader | window | chunks | GB/s | raw | of the best | processor s per GiB, by "
      "thread |\n|---|---|---|---|---|---|---|---|\n");
  for (const Setting& setting : settings) {
    auto row = measure(path, *file, *model, setting, rounds, buffers);
    if (!row) {
      fmt::print(stderr, "{}\n", row.error().message);
      return 1;
    }
    print(*row);
    rows.push_back(*std::move(row));
  }
  if (!json_path.empty()) std::ofstream(json_path) << rows.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int argc, char** argv) {
  using Numbers = std::vector<uint64_t>;
  using Words = std::vector<std::string>;
  cxxopts::Options options("fast_drives", "The pager's reading beside raw reads of the same file.");
  options.positional_help("FILE");
  auto add = options.add_options();
  add("file", "of 1 GiB or more", cxxopts::value<std::string>());
  add("mappers", "", cxxopts::value<Words>()->default_value("move,collapse,copy"));
  add("windows", "percent of the file", cxxopts::value<Numbers>()->default_value("12,25,50"));
  add("chunks", "KiB", cxxopts::value<Numbers>()->default_value("2048,512,128"));
  add("speeds", "GB/s of pretended drives", cxxopts::value<Numbers>()->default_value("0"));
  add("drives", "that a pretended volume is striped over",
      cxxopts::value<uint32_t>()->default_value("1"));
  add("passes", "in a round", cxxopts::value<uint64_t>()->default_value("4"));
  add("rounds", "", cxxopts::value<uint64_t>()->default_value("5"));
  add("json", "write it all to this file", cxxopts::value<std::string>()->default_value(""));
  options.parse_positional({"file"});
  try {
    const auto arguments = options.parse(argc, argv);
    if (arguments.count("file") == 1) {
      std::vector<weightpager::Setting> settings;
      for (const auto& mapper : arguments["mappers"].as<Words>())
        for (const uint64_t window : arguments["windows"].as<Numbers>())
          for (const uint64_t chunk : arguments["chunks"].as<Numbers>())
            for (const uint64_t speed : arguments["speeds"].as<Numbers>())
              settings.push_back({mapper,
                                  window,
                                  chunk * weightpager::KiB,
                                  {.bytes_per_s = static_cast<double>(speed) * 1e9,
                                   .drives = arguments["drives"].as<uint32_t>()}});
      return weightpager::run(
          arguments["file"].as<std::string>(), settings,
          {arguments["passes"].as<uint64_t>(), arguments["rounds"].as<uint64_t>()},
          arguments["json"].as<std::string>());
    }
  } catch (const cxxopts::exceptions::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
  }
  fmt::print(stderr, "{}", options.help());
  return 2;
}
