// A simulated disk: how long reads would take.
//
// A read waits until one of `queue_depth` places at the device is free, then for the device's
// latency, then for its turn on the bus, which carries `bytes_per_s`, one read after the other. So
// a single read takes latency + bytes / bandwidth, and enough reads at once hide the latency. The
// read that was started first ends first: no read overtakes another, because the pager hands all of
// them over at once. A virtual machine's disk may finish all reads that it has before it reports
// any of them: then no read is seen to end until the disk has nothing more to do. Jitter makes the
// latency longer by an exponentially distributed part of itself. Deterministic: the same seed gives
// the same times.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "pager/base/result.h"

namespace weightpager::simulate {

struct DiskModel {
  std::string name;
  double bytes_per_s = 0;
  uint64_t latency_ns = 0;
  /// Reads that the device works on at once.
  uint32_t queue_depth = 16;
  /// How much jitter lengthens the latency on average, as a share of the latency.
  double jitter = 0;
  /// All answers come at once, when the disk has nothing more to do.
  bool answers_together = false;
};

/// "nvme-gen4", "nvme-gen5", "sata", "emmc".
std::span<const DiskModel> disk_presets();

/// A preset by its name, or a speed with the first preset's other properties ("3GB/s": 10^9 bytes).
Result<DiskModel> disk_by_name(std::string_view name);

class SimulatedDisk {
 public:
  struct Finished {
    uint64_t tag;
    uint64_t started_ns;  // when it got its place at the device
    uint64_t finished_ns;
  };

  SimulatedDisk(const DiskModel& model, uint64_t seed) : model_(model), random_(seed) {}

  /// `now_ns` never goes back.
  void start(uint64_t tag, uint64_t length_bytes, uint64_t now_ns);
  /// No read is under way, and none is left to be taken.
  bool is_idle() const { return finished_.empty() && at_device_.empty(); }
  /// Reads that ended and were not taken count, too.
  uint32_t reads_in_flight() const {
    return static_cast<uint32_t>(finished_.size() + at_device_.size() + waiting_.size());
  }
  /// When the read that is taken next ends. Requires !is_idle().
  uint64_t next_finish_ns() const {
    return finished_.empty() ? next_answer_ns() : finished_.front().finished_ns;
  }
  Finished take_finished();

 private:
  struct Request {
    uint64_t tag;
    uint64_t length_bytes;
  };

  void begin(const Request& request, uint64_t now_ns);
  /// When the next of the reads at the device is answered.
  uint64_t next_answer_ns() const;
  void finish_next();
  uint64_t latency_ns();

  const DiskModel model_;
  std::mt19937_64 random_;
  std::deque<Request> waiting_;
  std::deque<Finished> at_device_;  // in the order in which they end
  std::deque<Finished> finished_;
  uint64_t bus_free_ns_ = 0;
};

}  // namespace weightpager::simulate
