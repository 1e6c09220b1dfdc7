// How fast an engine goes through spilled memory that is larger than the window, beside what the
// disk gives.
//
//     build/release/bench/spilled_passes FOLDER [MiB, 512 unless given] [window, % of it, 25]
//
// One thread writes the memory once, and then reads all of it again and again; then the same memory
// is a file's, read lazily, from a byte on that no sector begins at, and passed over as often. The
// engine looks at a word of each page, and so computes next to nothing: what is measured is the
// pager and the disk. A pass's time stands beside that of the bytes it read at the rate of large
// direct reads, measured between the passes. Medians of nine passes; the first three are left out,
// in which the order is learned.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "pager/base/made_file.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/io/file_identity.h"
#include "pager/io/open_reader.h"
#include "pager/pager.h"

namespace weightpager {
namespace {

constexpr int passes = 12;
constexpr int passes_left_out = 3;
constexpr uint64_t unaligned_bytes = 1608;

[[noreturn]] void give_up_passes(const std::string& why) {
  fmt::print(stderr, "spilled_passes: {}\n", why);
  std::exit(1);
}

template <typename T>
T need(Result<T> result) {
  if (!result) give_up_passes(result.error().message + ": " + result.error().hint);
  return std::move(*result);
}

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& it) {
    return static_cast<double>(it.tv_sec) + static_cast<double>(it.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// A file of these bytes, of which no two pages are equal.
std::string made_weights(const std::string& folder, uint64_t size_bytes) {
  std::string path = folder + "/passes_XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) give_up_passes(std::strerror(errno));
  std::vector<uint64_t> words(2 * MiB / 8);
  for (uint64_t at = 0; at < size_bytes; at += 2 * MiB) {
    for (uint64_t i = 0; i < words.size(); ++i) words[i] = (at + i) * 0x9e3779b97f4a7c15u;
    if (::write(fd, words.data(), 2 * MiB) != ssize_t{2 * MiB})
      give_up_passes(std::strerror(errno));
  }
  fsync(fd);
  close(fd);
  return path;
}

/// Bytes a second of direct reads with as many in flight as the pager has.
double disk_rate(const std::string& path, uint64_t size_bytes) {
  static auto reader = need(io::open_best_reader({.reads_max = 16}));
  static auto* const buffers = static_cast<std::byte*>(
      mmap(nullptr, 18 * 2 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT);
  const double seconds = seconds_of([&] {
    for (uint64_t at = 0; at < size_bytes || reader->reads_in_flight() > 0;) {
      for (; at < size_bytes && reader->reads_in_flight() < 16; at += 2 * MiB) {
        reader->start({at, fd, at, 2 * MiB, buffers + at / (2 * MiB) % 16 * 2 * MiB});
      }
      reader->wait(-1);
    }
  });
  close(fd);
  return static_cast<double>(size_bytes) / seconds;
}

class Passes {
 public:
  Passes(const std::string& folder, uint64_t size_bytes, uint64_t window_bytes)
      : weights_(made_weights(folder, size_bytes + 2 * MiB)), size_bytes_(size_bytes) {
    PagerOptions options;
    options.window_bytes = round_up(window_bytes, 2 * MiB);
    options.spill_folder = folder;
    options.gets_memory_first = true;
    options.telemetry = telemetry_;
    pager_ = need(Pager::start(options));
    memory_ = need(pager_->add_spilled_memory({.name = "memory", .length_bytes = size_bytes}));
  }
  ~Passes() {
    pager_->remove(memory_, size_bytes_);
    unlink(weights_.c_str());
  }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  void write() {
    const double seconds = seconds_of([&] {
      for (uint64_t at = 0; at < size_bytes_; at += 8) word(at) = at * 0x9e3779b97f4a7c15u + 1;
    });
    fmt::print("| written once | {:.3f} | {:.0f} MiB written | | |\n", seconds,
               static_cast<double>(telemetry_->spill_written_bytes) / MiB);
  }
  void read_lazily() {
    const std::string& path = weights_;
    need(pager_->read_lazily({.address = memory_,
                              .length_bytes = size_bytes_,
                              .link = path,
                              .file = *io::settled_identity_of(path),
                              .name = path,
                              .offset_bytes = unaligned_bytes}));
  }
  void pass(const char* what) {
    std::vector<double> seconds, ratios, processor;
    double read_mib = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const double rate = disk_rate(weights_, size_bytes_ / 2);
      const uint64_t before = telemetry_->read_bytes;
      const double processor_before = processor_seconds();
      const double taken = seconds_of([&] {
        for (uint64_t at = 0; at < size_bytes_; at += 4096) sum_ += word(at);
      });
      const auto read = static_cast<double>(telemetry_->read_bytes - before);
      if (pass < passes_left_out) continue;
      seconds.push_back(taken);
      ratios.push_back(read / rate / taken);
      processor.push_back(processor_seconds() - processor_before);
      read_mib = read / MiB;
    }
    fmt::print("| {} | {:.3f} | {:.0f} MiB read | {:.2f} | {:.3f} |\n", what, median(seconds),
               read_mib, median(ratios), median(processor));
  }

 private:
  volatile uint64_t& word(uint64_t offset_bytes) {
    return *reinterpret_cast<volatile uint64_t*>(memory_ + offset_bytes);
  }

  telemetry::Telemetry* telemetry_ = need(telemetry::create(""));
  std::string weights_;
  uint64_t size_bytes_;
  std::unique_ptr<Pager> pager_;
  std::byte* memory_ = nullptr;
  uint64_t sum_ = 0;
};

}  // namespace
}  // namespace weightpager

int main(int count, char** words) {
  using namespace weightpager;
  if (count < 2) give_up_passes("usage: spilled_passes FOLDER [MiB] [window in %]");
  const uint64_t size_bytes =
      (count > 2 ? std::strtoull(words[2], nullptr, 10) : 512) / 2 * 2 * MiB;
  const uint64_t percent = count > 3 ? std::strtoull(words[3], nullptr, 10) : 25;
  Passes passes(words[1], size_bytes, size_bytes * percent / 100);
  fmt::print(
      "| step | s | bytes | bytes at the disk's rate / s | processor s |\n|---|---|---|---|---|\n");
  passes.write();
  passes.pass("read from the spill file");
  passes.read_lazily();
  passes.pass("read from a file, unaligned");
}
