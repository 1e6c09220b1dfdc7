// What it costs threads that compute when a third one is woken beside them, and what reads cost
// them.
//
// Problem. A thread that starts reads and takes them in works for microseconds, but who computes is
// interrupted for it: his caches, on a virtual machine exits for each timer and interrupt. No
// thread's clock shows that.
//
// Idea. One thread per processor computes, either multiplying matrices or only counting, and how
// much they do is counted. One more thread wakes 1,000 times a second and sleeps again; with a FILE
// it reads 500 MB/s of it instead, in so many bytes each time that it wakes. What they do less then
// than in the seconds before and after, in processor time, by wake or by gigabyte, is the cost.
// Medians of 15.
//
//     build/release/bench/wake_cost [FILE]           two minutes, a quiet machine
#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "pager/base/anonymous_memory.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"

namespace weightpager {
namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

constexpr int repeats = 15;
constexpr double bytes_per_s = 500e6;
constexpr uint32_t request_bytes = 1 * MiB;

/// Threads that compute until this goes.
class Computing {
 public:
  explicit Computing(bool is_product) : done_(std::thread::hardware_concurrency()) {
    for (Done& done : done_) {
      threads_.emplace_back([&, is_product] { is_product ? multiply(done) : count(done); });
    }
  }
  ~Computing() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  /// Steps a second while `other` runs, which ends after about so many seconds.
  double rate(double seconds, const std::function<void(Clock::time_point)>& other) const {
    const uint64_t before = steps();
    const auto begin = Clock::now();
    other(begin + std::chrono::duration_cast<Clock::duration>(Seconds(seconds)));
    return static_cast<double>(steps() - before) / Seconds(Clock::now() - begin).count();
  }

 private:
  struct alignas(64) Done {
    std::atomic<uint64_t> steps{0};
  };

  uint64_t steps() const {
    uint64_t sum = 0;
    for (const Done& done : done_) sum += done.steps;
    return sum;
  }

  // A layer of 1024 filters over 96 pixels, 16 at a time; weights come from memory, as in a
  // network.
  void multiply(Done& done) const {
    omp_set_num_threads(1);
    constexpr int64_t terms = 4608, pixels = 96, channels = 16, all_channels = 4096;
    std::vector<float> weights(all_channels * terms, 0.5f), picture(terms * pixels, 0.25f);
    std::vector<float> output(channels * pixels);
    for (int64_t first = 0; !is_over_; first = (first + channels) % all_channels) {
      dnnl_sgemm('N', 'N', channels, pixels, terms, 1, weights.data() + first * terms, terms,
                 picture.data(), pixels, 0, output.data(), pixels);
      ++done.steps;
    }
  }
  void count(Done& done) const {
    for (std::atomic<uint64_t> turns{0}; !is_over_; ++done.steps) {
      for (int i = 0; i < 20'000; ++i)
        turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }

  std::vector<Done> done_;
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

/// Processor seconds that those who compute lose by one unit of what `other` does, which it
/// returns.
double cost(const Computing& computing, const std::function<double(Clock::time_point)>& other) {
  const auto nothing = [](Clock::time_point end) { std::this_thread::sleep_until(end); };
  std::vector<double> costs;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    double amount = 0;
    const double before = computing.rate(0.5, nothing);
    const double beside = computing.rate(1.0, [&](Clock::time_point end) { amount = other(end); });
    const double after = computing.rate(0.5, nothing);
    const double share_lost = 1 - beside / ((before + after) / 2);
    costs.push_back(share_lost * std::thread::hardware_concurrency() / amount);
  }
  return median(costs);
}

double wake_often(Clock::time_point end) {
  double wakes = 0;
  for (; Clock::now() < end; ++wakes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return wakes;
}

/// Reads so many bytes each time that it wakes. Returns gigabytes.
double read_often(io::Reader& reader, int fd, uint64_t file_bytes, std::byte* memory,
                  uint64_t batch_bytes, Clock::time_point end) {
  const auto pace = std::chrono::duration_cast<Clock::duration>(
      Seconds(static_cast<double>(batch_bytes) / bytes_per_s));
  double bytes = 0;
  uint64_t offset_bytes = 0;
  for (auto next = Clock::now(); next < end; next += pace) {
    std::this_thread::sleep_until(next);
    for (uint64_t at = 0; at < batch_bytes; at += request_bytes) {
      reader.start({.tag = at,
                    .fd = fd,
                    .offset_bytes = offset_bytes,
                    .length_bytes = request_bytes,
                    .buffer = memory + at});
      offset_bytes = (offset_bytes + request_bytes) % round_down(file_bytes, request_bytes);
    }
    while (reader.reads_in_flight() > 0) {
      for (const io::Completion& it : reader.wait(-1).completions) bytes += it.length_bytes;
    }
  }
  return bytes / 1e9;
}

int measure(const char* path) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -10);
  for (const bool is_product : {true, false}) {
    const Computing computing(is_product);
    fmt::print("a wake beside threads that {}: {:.0f} µs\n", is_product ? "multiply" : "count",
               cost(computing, wake_often) * 1e6);
  }
  if (path == nullptr) return 0;
  const int fd = open(path, O_RDONLY | O_DIRECT);
  struct stat facts {};
  constexpr uint64_t most_bytes = 8 * MiB;
  auto memory = AnonymousMemory::make(most_bytes, "reads", "free some");
  auto reader = io::open_best_reader({.reads_max = most_bytes / request_bytes});
  if (fd < 0 || fstat(fd, &facts) != 0 || static_cast<uint64_t>(facts.st_size) < most_bytes ||
      !memory || !reader) {
    fmt::print(stderr, "{}: no file of 8 MiB or more that can be read directly\n", path);
    return 1;
  }
  const Computing computing(true);
  for (const uint64_t batch_bytes : {1 * MiB, 2 * MiB, 4 * MiB, 8 * MiB}) {
    const double seconds = cost(computing, [&](Clock::time_point end) {
      return read_often(**reader, fd, static_cast<uint64_t>(facts.st_size), memory->at(0),
                        batch_bytes, end);
    });
    fmt::print("reads, {} each time: {:.3f} processor seconds for each GB\n",
               format_size(batch_bytes), seconds);
  }
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int count, char** arguments) {
  return weightpager::measure(count > 1 ? arguments[1] : nullptr);
}
