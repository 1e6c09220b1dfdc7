// How many faults the pager serves a second when many threads touch chunks at once, and how long
// each of them waits.
//
// Problem. One thread serves all faults. Where does that stop growing with the threads that touch:
// at the kernel's lock of the process's mappings, at interrupts between processors, or at the loop?
//
// Idea. The model is 256 MiB in a file on tmpfs, so no disk is the bound. The threads take turns
// through its chunks, so no two of them wait for the same one. "ready": all bytes are in the
// window, and a chunk is hidden again as soon as some others were touched (that is what recording a
// trace does), so each touch costs a fault and no read. "absent": the window has half of the model,
// so each touch costs an eviction and a read, which on tmpfs is a copy. The mapper "copy" cannot
// hide chunks, and is measured with absent ones only. Beside the faults stands what they cost of
// the pager's thread: while that is less than a second each second, the loop is not the bound.
//
//     build/release/bench/touching_threads [--mappers move,…] [--threads 1,2,…]      half a minute
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cxxopts.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pager/base/made_file.h"
#include "pager/base/units.h"
#include "pager/pager.h"
#include "pager/telemetry/telemetry.h"
#include "pager/telemetry/touch_record.h"

namespace weightpager {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr uint64_t model_bytes = 256 * MiB;
// A touch of a chunk that is shown takes less.
constexpr uint64_t fault_ns_min = 1'000;

struct Options {
  std::vector<std::string> mappers;
  std::vector<uint32_t> threads;
  std::vector<uint32_t> chunk_kib;
  double seconds = 0;
  std::string folder;
};

/// What is measured at once.
struct Place {
  std::string mapper;
  bool is_ready = false;
  uint64_t chunk_bytes = 0;
};

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "touching_threads: {}\n", what);
  std::exit(1);
}

/// The model; each chunk begins with where it lies in the file.
class ModelOnTmpfs {
 public:
  explicit ModelOnTmpfs(const std::string& folder)
      : path_(fmt::format("{}/touching_threads.{}", folder, getpid())) {
    auto file = MadeFile::create(path_, model_bytes);
    if (!file) give_up(file.error().message);
    std::vector<uint64_t> words(64 * KiB / sizeof(uint64_t), 1);
    for (uint64_t at = 0; at < model_bytes; at += 64 * KiB) {
      words[0] = at;
      const std::string_view bytes(reinterpret_cast<const char*>(words.data()), 64 * KiB);
      if (auto done = file->write(at, bytes); !done) give_up(done.error().message);
    }
    if (auto done = file->commit(); !done) give_up(done.error().message);
  }
  ~ModelOnTmpfs() { std::filesystem::remove(path_); }
  ModelOnTmpfs(const ModelOnTmpfs&) = delete;
  ModelOnTmpfs& operator=(const ModelOnTmpfs&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// Processor time of the pager's thread so far, as the kernel counts it.
uint64_t pager_cpu_ns() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(thread.path() / "comm") >> name;
    uint64_t ran_ns = 0;
    if (name == "wp-pager" && std::ifstream(thread.path() / "schedstat") >> ran_ns) return ran_ns;
  }
  return 0;
}

void touch(const std::byte* region, uint64_t offset_bytes) {
  const auto* const word = reinterpret_cast<const volatile uint64_t*>(region + offset_bytes);
  if (*word != offset_bytes) give_up("wrong bytes");
}

/// A pager that serves the model in one region.
class Served {
 public:
  static Result<std::unique_ptr<Served>> create(const ModelOnTmpfs& model, const Place& place) {
    std::unique_ptr<Served> it(new Served);
    auto telemetry = telemetry::create("");
    if (!telemetry) return forward_error(std::move(telemetry));
    it->telemetry_ = *telemetry;
    auto record = telemetry::TouchRecord::create_private();
    if (!record) return forward_error(std::move(record));
    it->record_ = std::move(*record);
    PagerOptions options;
    options.window_bytes = place.is_ready ? model_bytes : model_bytes / 2;
    options.mapper = place.mapper;
    options.policy = "lru";
    options.chunk_bytes = place.chunk_bytes;
    options.gets_memory_first = true;
    options.telemetry = it->telemetry_;
    if (place.is_ready) options.touch_record = it->record_.get();
    auto pager = Pager::start(options);
    if (!pager) return forward_error(std::move(pager));
    it->pager_ = std::move(*pager);
    RegionRequest request;
    request.path = request.name = model.path();
    request.length_bytes = model_bytes;
    auto region = it->pager_->add_region(request);
    if (!region) return forward_error(std::move(region));
    it->region_ = *region;
    return it;
  }
  ~Served() {
    if (region_ != nullptr) pager_->remove(region_, model_bytes);
  }

  const std::byte* region() const { return region_; }
  uint64_t faults() const {
    return telemetry_->faults_demand + telemetry_->faults_late + telemetry_->faults_tripwire;
  }

 private:
  Served() = default;

  telemetry::Telemetry* telemetry_ = nullptr;
  telemetry::PrivateTouchRecord record_;
  std::unique_ptr<Pager> pager_;
  std::byte* region_ = nullptr;
};

/// So many threads touch chunks for a while. Returns how long each touch took that was a fault.
std::vector<uint64_t> touch_for(const Served& served, const Place& place, uint32_t threads,
                                double seconds) {
  const uint64_t chunks = model_bytes / place.chunk_bytes;
  std::atomic<bool> is_over = false;
  std::barrier begin(threads + 1);
  std::vector<std::vector<uint64_t>> times(threads);
  std::vector<std::thread> touching;
  for (uint32_t own = 0; own < threads; ++own) {
    touching.emplace_back([&, own] {
      begin.arrive_and_wait();
      for (uint64_t chunk = own; !is_over; chunk = (chunk + threads) % chunks) {
        const auto before = Clock::now();
        touch(served.region(), chunk * place.chunk_bytes);
        const auto took = static_cast<uint64_t>((Clock::now() - before).count());
        if (took >= fault_ns_min) times[own].push_back(took);
      }
    });
  }
  begin.arrive_and_wait();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  is_over = true;
  for (std::thread& thread : touching) thread.join();
  std::vector<uint64_t> all;
  for (const auto& own : times) all.insert(all.end(), own.begin(), own.end());
  return all;
}

double quantile_us(std::vector<uint64_t>& times, double share) {
  if (times.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(static_cast<double>(times.size() - 1) * share);
  std::nth_element(times.begin(), times.begin() + at, times.end());
  return static_cast<double>(times[static_cast<size_t>(at)]) / 1e3;
}

Json measure_threads(const Served& served, const Place& place, uint32_t threads, double seconds) {
  const uint64_t faults_before = served.faults();
  const uint64_t cpu_before = pager_cpu_ns();
  const auto begin = Clock::now();
  std::vector<uint64_t> times = touch_for(served, place, threads, seconds);
  const double took_s = std::chrono::duration<double>(Clock::now() - begin).count();
  const auto cpu_ns = static_cast<double>(pager_cpu_ns() - cpu_before);
  const auto faults = static_cast<double>(served.faults() - faults_before);
  return {{"threads", threads},
          {"faults_per_s", faults / took_s},
          {"p50_us", quantile_us(times, 0.5)},
          {"p99_us", quantile_us(times, 0.99)},
          {"pager_cpu_us_per_fault", faults > 0 ? cpu_ns / 1e3 / faults : 0},
          {"pager_busy", cpu_ns / 1e9 / took_s}};
}

Json measure_place(const ModelOnTmpfs& model, const Place& place, const Options& options) {
  Json row = {{"mapper", place.mapper},
              {"chunks_are", place.is_ready ? "ready" : "absent"},
              {"chunk_bytes", place.chunk_bytes}};
  const auto served = Served::create(model, place);
  if (!served) {
    row["skipped"] = served.error().message;
    return row;
  }
  for (uint64_t at = 0; at < model_bytes; at += place.chunk_bytes) touch((*served)->region(), at);
  row["runs"] = Json::array();
  for (const uint32_t threads : options.threads) {
    if (threads > model_bytes / place.chunk_bytes) continue;
    row["runs"].push_back(measure_threads(**served, place, threads, options.seconds));
  }
  return row;
}

void print_row(const Json& row) {
  const auto head =
      fmt::format("| {} | {} | {} KiB |", row["mapper"].get<std::string>(),
                  row["chunks_are"].get<std::string>(), row["chunk_bytes"].get<uint64_t>() / KiB);
  if (row.contains("skipped")) {
    fmt::print("{} {} | | | | |\n", head, row["skipped"].get<std::string>());
    return;
  }
  for (const Json& run : row["runs"]) {
    fmt::print("{} {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {:.2f} |\n", head,
               run["threads"].get<uint32_t>(), run["faults_per_s"].get<double>(),
               run["p50_us"].get<double>(), run["p99_us"].get<double>(),
               run["pager_cpu_us_per_fault"].get<double>(), run["pager_busy"].get<double>());
  }
}

int run(const Options& options, const std::string& json_path) {
  const ModelOnTmpfs model(options.folder);
  Json rows = Json::array();
  fmt::print(
      "| mapper | chunks | size | threads | faults a second | 50 %, us | 99 %, us "
      "| pager, us of processor a fault | pager busy |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const uint32_t kib : options.chunk_kib) {
    for (const std::string& mapper : options.mappers) {
      for (const bool is_ready : {true, false}) {
        if (is_ready && mapper == "copy") continue;
        rows.push_back(measure_place(model, {mapper, is_ready, kib * KiB}, options));
        print_row(rows.back());
      }
    }
  }
  const Json all = {{"benchmark", "touching_threads"},
                    {"processors", std::thread::hardware_concurrency()},
                    {"seconds", options.seconds},
                    {"rows", rows}};
  if (!json_path.empty()) std::ofstream(json_path) << all.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int argc, char** argv) {
  setlinebuf(stdout);
  cxxopts::Options options("touching_threads", "Faults a second by threads that touch chunks.");
  auto add = options.add_options();
  const auto value = [](const char* usual) {
    return cxxopts::value<std::string>()->default_value(usual);
  };
  add("mappers", "",
      cxxopts::value<std::vector<std::string>>()->default_value("move,collapse,copy,module"));
  add("threads", "", cxxopts::value<std::vector<uint32_t>>()->default_value("1,2,4,8,16,32,64"));
  add("chunks", "in KiB", cxxopts::value<std::vector<uint32_t>>()->default_value("2048,128"));
  add("seconds", "of each run", cxxopts::value<double>()->default_value("0.3"));
  add("folder", "on tmpfs, with room for 256 MiB", value("/dev/shm"));
  add("json", "write it all to this file", value(""));
  try {
    const auto arguments = options.parse(argc, argv);
    return weightpager::run(
        {arguments["mappers"].as<std::vector<std::string>>(),
         arguments["threads"].as<std::vector<uint32_t>>(),
         arguments["chunks"].as<std::vector<uint32_t>>(), arguments["seconds"].as<double>(),
         arguments["folder"].as<std::string>()},
        arguments["json"].as<std::string>());
  } catch (const cxxopts::exceptions::exception& problem) {
    fmt::print(stderr, "{}\n{}", problem.what(), options.help());
    return 2;
  }
}
