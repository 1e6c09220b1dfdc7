// Two drives with a copy of the model each, faster than the machine's own: how close the pager
// comes to the sum of their bandwidths.
//
// The pager, its policy, its window and its choice of drives are the real ones. The drives are not:
// each takes so long for a read as one of its speed would that works off its reads one after the
// other, and brings nothing. So no drive, and no copying of bytes, is a bound. The engine touches a
// byte of every chunk, in the order of the file. Prints GB/s of the last passes, with the first
// drive alone, the second one alone, and both. bench/mirrors.py does the same on drives that bring
// bytes.
//
//     build/release/bench/mirrors_on_paper        (makes two empty files of 2 GiB where it runs;
//     two minutes)
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/io/deadline.h"
#include "pager/io/mirrors.h"
#include "pager/model/model.h"
#include "pager/pager.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager {
namespace {

constexpr uint64_t file_bytes = 2 * GiB;
constexpr uint64_t window_bytes = 256 * MiB;
constexpr int passes = 4;
constexpr int passes_learning = 2;
constexpr int repeats = 3;

/// A file that holds no bytes, and the speed of the drive that it is said to lie on.
struct PaperFile {
  explicit PaperFile(std::string name) : path(std::move(name)) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct stat facts {};
    if (fd < 0 || ftruncate(fd, file_bytes) != 0 || fstat(fd, &facts) != 0) std::abort();
    inode = facts.st_ino;
    ::close(fd);
  }
  ~PaperFile() { unlink(path.c_str()); }
  PaperFile(const PaperFile&) = delete;
  PaperFile& operator=(const PaperFile&) = delete;

  std::string path;
  ino_t inode = 0;
  double bytes_per_ns = 1;  // GB/s
  uint64_t free_ns = 0;
};

class PaperReader final : public io::Reader {
 public:
  PaperReader(const io::ReaderOptions& options, std::array<PaperFile*, 2> files)
      : watched_fd_(options.watched_fd), files_(files) {}

  void start(const io::Read& read) override {
    struct stat facts {};
    if (fstat(read.fd, &facts) != 0) std::abort();
    PaperFile& file = *files_[facts.st_ino == files_[1]->inode ? 1 : 0];
    const auto own_ns = static_cast<uint64_t>(read.length_bytes / file.bytes_per_ns);
    file.free_ns = std::max(file.free_ns, telemetry::monotonic_ns()) + own_ns;
    reads_.push({file.free_ns, {.tag = read.tag, .length_bytes = read.length_bytes}});
  }

  io::Wakeup wait(int64_t timeout_ns) override {
    completions_.clear();
    int64_t sleep_ns = timeout_ns;
    if (!reads_.empty()) {
      const uint64_t now_ns = telemetry::monotonic_ns();
      const auto due_ns = static_cast<int64_t>(std::max(reads_.top().due_ns, now_ns) - now_ns);
      sleep_ns = timeout_ns < 0 ? due_ns : std::min(timeout_ns, due_ns);
    }
    const auto limit = io::to_timespec<timespec>(std::max<int64_t>(sleep_ns, 0));
    pollfd watched = {.fd = watched_fd_, .events = POLLIN, .revents = 0};
    const bool is_readable = ppoll(&watched, 1, sleep_ns < 0 ? nullptr : &limit, nullptr) > 0;
    const uint64_t now_ns = telemetry::monotonic_ns();
    for (; !reads_.empty() && reads_.top().due_ns <= now_ns; reads_.pop())
      completions_.push_back(reads_.top().completion);
    return {completions_, is_readable};
  }

  uint32_t reads_in_flight() const override { return static_cast<uint32_t>(reads_.size()); }
  const char* name() const override { return "paper"; }

 private:
  struct Row {
    uint64_t due_ns = 0;
    io::Completion completion;
    bool operator<(const Row& other) const { return due_ns > other.due_ns; }
  };

  const int watched_fd_;
  const std::array<PaperFile*, 2> files_;
  std::priority_queue<Row> reads_;
  std::vector<io::Completion> completions_;
};

/// GB/s of a model in the first file, with a copy in the second one or without.
Result<double> measure(PaperFile& model, PaperFile& other, bool has_mirror) {
  const std::optional<io::FileIdentity> identity = io::settled_identity_of(model.path);
  const std::optional<io::FileIdentity> of_copy = io::settled_identity_of(other.path);
  if (!identity || !of_copy) return fail("no identity");
  RegionRequest request;
  request.path = request.name = model.path;
  request.file = identity;
  request.length_bytes = file_bytes;
  const model::Model in_order = model::in_file_order(model.path, file_bytes);
  request.model = &in_order;
  if (has_mirror) request.copies = {{*identity, *of_copy, other.path, 1}};

  auto telemetry = telemetry::create("");
  if (!telemetry) return forward_error(std::move(telemetry));
  PagerOptions options;
  options.window_bytes = window_bytes;
  options.telemetry = *telemetry;
  const int fd = ::open(model.path.c_str(), O_RDONLY | O_CLOEXEC);
  options.device = io::device_limits(fd, request.copies);
  ::close(fd);
  options.open_reader = [&](const io::ReaderOptions& it) -> Result<std::unique_ptr<io::Reader>> {
    return std::make_unique<PaperReader>(it, std::array{&model, &other});
  };
  auto pager = Pager::start(options);
  if (!pager) return forward_error(std::move(pager));
  const auto region = (*pager)->add_region(request);
  if (!region) return tl::make_unexpected(region.error());
  uint64_t began_ns = 0;
  uint64_t began_bytes = 0;
  for (int pass = 0; pass < passes; ++pass) {
    if (pass == passes_learning) {
      began_ns = telemetry::monotonic_ns();
      began_bytes = (*telemetry)->read_bytes;
    }
    for (uint64_t at = 0; at < file_bytes; at += chunk_bytes_max)
      (void)*reinterpret_cast<const volatile char*>(*region + at);
  }
  const auto bytes = static_cast<double>((*telemetry)->read_bytes - began_bytes);
  const double speed = bytes / static_cast<double>(telemetry::monotonic_ns() - began_ns);
  (*pager)->remove(*region, file_bytes);
  return speed;
}

Status run() {
  PaperFile first("paper_first.bin");
  PaperFile second("paper_second.bin");
  fmt::print(
      "| drives, GB/s | first alone | second alone | both | of both speeds "
      "|\n|---|---|---|---|---|\n");
  for (const auto& [a, b] : {std::pair(2.0, 2.0), {1.0, 3.0}, {0.5, 7.0}, {7.0, 7.0}}) {
    first.bytes_per_ns = a;
    second.bytes_per_ns = b;
    std::array<std::vector<double>, 3> speeds;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const Result<double> measured[] = {measure(first, second, false),
                                         measure(second, first, false),
                                         measure(first, second, true)};
      for (size_t arm = 0; arm < speeds.size(); ++arm) {
        if (!measured[arm]) return tl::make_unexpected(measured[arm].error());
        speeds[arm].push_back(*measured[arm]);
      }
    }
    const double alone[] = {median(speeds[0]), median(speeds[1])};
    const double both = median(speeds[2]);
    fmt::print("| {} + {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", a, b, alone[0], alone[1], both,
               both / (a + b));
  }
  return {};
}

}  // namespace
}  // namespace weightpager

int main() {
  const auto done = weightpager::run();
  if (done) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
