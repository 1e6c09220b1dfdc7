// Drives of a set speed that take no processor time and bring no bytes: how fast the pager can be,
// whatever drive there is.
//
// A real drive writes into memory by itself. A file on tmpfs does not: its copies keep the
// processors busy that the pager and the engine need. Here a read is over when the drive would have
// brought its bytes, and the memory keeps what it had. Several drives are a striped volume: each
// has every so many-th stripe, and its reads go one after the other.
#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "pager/io/deadline.h"
#include "pager/io/reader.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager {

struct PretendedDrives {
  double bytes_per_s = 0;  // of all drives together
  uint32_t drives = 1;
  uint64_t stripe_bytes = 2u << 20;
  uint64_t latency_ns = 60'000;
};

class PretendedReader final : public io::Reader {
 public:
  PretendedReader(const PretendedDrives& drives, const io::ReaderOptions& options)
      : drives_(drives), watched_fd_(options.watched_fd), free_at_ns_(drives.drives) {
    under_way_.reserve(options.reads_max);
    completions_.reserve(options.reads_max);
    prctl(PR_SET_TIMERSLACK, 1);  // of the pager's thread, which makes its reader itself
  }

  void start(const io::Read& read) override {
    uint64_t& free_at_ns = free_at_ns_[read.offset_bytes / drives_.stripe_bytes % drives_.drives];
    const double transfer_ns = read.length_bytes / drives_.bytes_per_s * 1e9 * drives_.drives;
    const uint64_t now_ns = telemetry::monotonic_ns();
    // As for a direct read, the kernel looks up the pages, and makes them where there are none.
    madvise(read.buffer, read.length_bytes, MADV_POPULATE_WRITE);
    free_at_ns = std::max(free_at_ns, now_ns) + static_cast<uint64_t>(transfer_ns);
    under_way_.push_back({.due_ns = free_at_ns + drives_.latency_ns,
                          .completion = {.tag = read.tag, .length_bytes = read.length_bytes}});
  }

  io::Wakeup wait(int64_t timeout_ns) override {
    const io::Deadline deadline(timeout_ns);
    completions_.clear();
    bool is_readable = false;
    do {
      is_readable = sleep(deadline);
      take_due();
    } while (completions_.empty() && !is_readable && !deadline.has_passed());
    return {completions_, is_readable};
  }

  uint32_t reads_in_flight() const override { return static_cast<uint32_t>(under_way_.size()); }
  const char* name() const override { return "pretended"; }

 private:
  struct Row {
    uint64_t due_ns = 0;
    io::Completion completion;
  };

  /// Until the next read is due, or earlier. Returns whether the watched descriptor is readable.
  bool sleep(const io::Deadline& deadline) {
    uint64_t due_ns = UINT64_MAX;
    for (const Row& row : under_way_) due_ns = std::min(due_ns, row.due_ns);
    const uint64_t now_ns = telemetry::monotonic_ns();
    int64_t rest_ns = INT64_MAX;
    if (!under_way_.empty()) rest_ns = static_cast<int64_t>(due_ns - std::min(due_ns, now_ns));
    if (!deadline.is_unlimited()) rest_ns = std::min(rest_ns, deadline.remaining_ns());
    const auto limit = io::to_timespec<timespec>(rest_ns);
    pollfd watched = {.fd = watched_fd_, .events = POLLIN, .revents = 0};
    return ppoll(&watched, 1, rest_ns == INT64_MAX ? nullptr : &limit, nullptr) > 0;
  }

  void take_due() {
    const uint64_t now_ns = telemetry::monotonic_ns();
    std::erase_if(under_way_, [&](const Row& row) {
      if (row.due_ns > now_ns) return false;
      completions_.push_back(row.completion);
      return true;
    });
  }

  const PretendedDrives drives_;
  const int watched_fd_;
  std::vector<uint64_t> free_at_ns_;  // by drive
  std::vector<Row> under_way_;
  std::vector<io::Completion> completions_;
};

}  // namespace weightpager
