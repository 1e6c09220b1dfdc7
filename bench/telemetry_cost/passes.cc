// Passes over a model in a window, as one thread that reads every byte: what each took, and what
// processors did for it. One program of three: with telemetry as it is, with recording
// turned into nothing, and with recordings counted (bench/telemetry_cost.py).
//
//     telemetry_cost_with MODEL WINDOW_MIB CHUNK_KIB PASSES [trace]
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/model/model.h"
#include "pager/pager.h"
#include "pager/telemetry/event_ring.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager {
namespace {

using Json = nlohmann::ordered_json;
using telemetry::EventRing;
using telemetry::Telemetry;

constexpr int settling_passes = 3;
constexpr uint64_t timed_calls = 1u << 22;

/// Of all threads together: what others on the machine do takes little of it.
uint64_t process_cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t recordings() {
#ifdef WP_COUNT_RECORDINGS
  return telemetry::recordings;
#else
  return 0;
#endif
}

/// Takes what is traced out of the ring, as the control socket's thread does.
class Tracer {
 public:
  explicit Tracer(Pager& pager) : pager_(pager) {
    pager_.trace_to(ring_.get());
    thread_ = std::thread([this] {
      std::vector<telemetry::Event> events(2048);
      while (!is_over_) {
        taken_ += ring_->take(events);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  ~Tracer() {
    pager_.trace_to(nullptr);
    is_over_ = true;
    thread_.join();
  }
  uint64_t taken() const { return taken_; }

 private:
  Pager& pager_;
  std::unique_ptr<EventRing> ring_ = std::make_unique<EventRing>();
  std::atomic<bool> is_over_{false};
  std::atomic<uint64_t> taken_{0};
  std::thread thread_;
};

template <typename Call>
double ns_each(Call call) {
  const uint64_t begin_ns = telemetry::monotonic_ns();
  for (uint64_t i = 0; i < timed_calls; ++i) call(i);
  return static_cast<double>(telemetry::monotonic_ns() - begin_ns) / timed_calls;
}

/// What one recording takes, of each kind.
Json costs() {
  const auto telemetry = std::make_unique<Telemetry>();
  const auto ring = std::make_unique<EventRing>();
  std::vector<telemetry::Event> events(EventRing::events_max);
  const auto to_memory = [] { asm volatile("" ::: "memory"); };
  Json json;
  json["add_ns"] = ns_each([&](uint64_t) {
    telemetry::add(telemetry->read_bytes, 1);
    to_memory();
  });
  json["histogram_add_ns"] = ns_each([&](uint64_t i) {
    telemetry->read_latency_ns.add(i * 977);
    to_memory();
  });
  json["clock_ns"] = ns_each([&](uint64_t) { telemetry::monotonic_ns(); });
  json["event_ns"] = ns_each([&](uint64_t i) {
    ring->add({.time_ns = telemetry::monotonic_ns(), .chunk = static_cast<uint32_t>(i)});
    if (i % EventRing::events_max == EventRing::events_max - 1) ring->take(events);
  });
  return json;
}

Result<Json> measure(const std::string& path, const PagerOptions& options, int passes,
                     bool is_traced) {
  auto pager = Pager::start(options);
  if (!pager) return forward_error(std::move(pager));
  const auto model = model::open_model_file(path);
  if (!model) return tl::make_unexpected(model.error());
  RegionRequest request;
  request.path = request.name = path;
  request.length_bytes = model->files[0].size_bytes;
  request.model = &*model;
  const auto region = (*pager)->add_region(request);
  if (!region) return tl::make_unexpected(region.error());
  const auto pass_ns = [&] {
    const uint64_t begin_ns = telemetry::monotonic_ns();
    const auto* words = reinterpret_cast<const volatile uint64_t*>(*region);
    for (uint64_t i = 0; i < request.length_bytes / sizeof *words; ++i) (void)words[i];
    return telemetry::monotonic_ns() - begin_ns;
  };
  for (int i = 0; i < settling_passes; ++i) pass_ns();

  std::optional<Tracer> tracer;
  if (is_traced) tracer.emplace(**pager);
  const Telemetry& counters = *options.telemetry;
  const auto counted = [&] {
    return Json{
        {"faults", counters.faults_demand + counters.faults_late + counters.faults_tripwire},
        {"reads", counters.read_latency_ns.distribution().count()},
        {"read_bytes", counters.read_bytes.load()},
        {"evictions", counters.evictions.load()},
        {"recordings", recordings()}};
  };
  const Json before = counted();
  Json json = {{"passes_ns", Json::array()}, {"cpu_ns", Json::array()}};
  for (int i = 0; i < passes; ++i) {
    const uint64_t cpu_before_ns = process_cpu_ns();
    json["passes_ns"].push_back(pass_ns());
    json["cpu_ns"].push_back(process_cpu_ns() - cpu_before_ns);
  }
  const Json after = counted();
  for (const auto& [key, value] : after.items()) {
    json[key] = value.get<uint64_t>() - before.at(key).get<uint64_t>();
  }
  if (tracer) json["events"] = tracer->taken();
  tracer.reset();
  (*pager)->remove(*region, request.length_bytes);
  return json;
}

int run(const std::vector<std::string>& words) {
  const bool is_traced = words.size() == 5 && words[4] == "trace";
  if (words.size() != 4 && !is_traced) {
    fmt::print(stderr, "expected MODEL WINDOW_MIB CHUNK_KIB PASSES [trace]\n");
    return 2;
  }
  const int fd = open(words[0].c_str(), O_RDONLY | O_CLOEXEC);
  PagerOptions options;
  options.window_bytes = std::stoull(words[1]) * MiB;
  options.chunk_bytes = std::stoull(words[2]) * KiB;
  options.policy = "pin-stream";
  options.device = io::device_limits(fd);
  options.telemetry = *telemetry::create("");
  close(fd);
  auto json = measure(words[0], options, std::stoi(words[3]), is_traced);
  if (!json) {
    fmt::print(stderr, "{}\n", json.error().message);
    return 1;
  }
  (*json)["costs"] = costs();
  fmt::print("{}\n", json->dump());
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int argc, char** argv) { return weightpager::run({argv + 1, argv + argc}); }
