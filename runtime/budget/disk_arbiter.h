// Whose read goes to the disk next, when several networks share one.
//
// Problem. A network that reads far ahead fills the disk's queue, and another that will stand still
// in a millisecond waits behind it. First come, first served is fair to reads; what counts is which
// network runs out of time.
//
// Idea. A pure state machine. Every read comes with the latest time at which it may start without
// making its inference late: the deadline, minus what is left to read and to compute
// (`latest_starts`). Slack is that minus now, and now is the same for all, so the earliest latest
// start is the least slack, and no clock is needed. Of each network only the read that it asked for
// first competes. Few bytes are at the disk at a time, so that whoever is urgent waits for little.
//
// A network whose deadlines are always past would take the whole disk. So a read that others were
// preferred to, for too many bytes, goes first: between a read's becoming its network's first and
// its start, others start at most `overtaking_bytes_max` + networks · largest read. With 0 allowed,
// reads start in the order in which they became their network's first.
//
// No I/O, no clock, no threads. Cost: O(networks) per read.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/timeline.h"

namespace weightpager::budget {

struct ArbiterSettings {
  /// At the disk at a time; one read may be larger.
  uint64_t in_flight_bytes_max = 8 << 20;
  uint64_t overtaking_bytes_max = 64 << 20;
};

/// Of networks with these periods (0: none) and urgencies (1 is ordinary). Where no inference is
/// due and none is urgent, reads take turns. By what it was planned to take alone everybody is late
/// who shares processors, and by more the longer an inference takes: the slowest would go first,
/// and the others wait for their bursts.
ArbiterSettings arbiter_settings(std::span<const uint64_t> periods_ns,
                                 std::span<const double> urgencies);

struct DiskRead {
  /// The caller's, passed through.
  uint64_t tag = 0;
  uint64_t size_bytes = 0;
  /// On any clock that all networks share.
  int64_t latest_start_ns = 0;
};

/// Contract: after each `ask`, `on_finished` and `leave`, call `next` until it returns nothing, and
/// start each read. `on_finished` comes once per started read, in any order. Not thread-safe.
class DiskArbiter {
 public:
  DiskArbiter(uint32_t networks, const ArbiterSettings& settings);

  /// Behind what this network has asked for.
  void ask(uint32_t network, const DiskRead& read);
  void on_finished(uint64_t size_bytes);
  /// Reads of this network that were not started are forgotten.
  void leave(uint32_t network);

  struct Start {
    uint32_t network = 0;
    DiskRead read;
  };
  std::optional<Start> next();

  uint64_t in_flight_bytes() const { return in_flight_bytes_; }

 private:
  // A network's first read, and how it fares.
  struct Queue {
    std::deque<DiskRead> reads;
    uint64_t first_since = 0;
    uint64_t overtaken_bytes = 0;
  };

  bool goes_before(const Queue& a, const Queue& b) const;
  void begin_waiting(Queue& queue);

  ArbiterSettings settings_;
  std::vector<Queue> queues_;
  uint64_t in_flight_bytes_ = 0;
  uint64_t turns_ = 0;
};

/// By unit: how long before its inference's deadline its read has to start, with the disk alone, so
/// that neither its kernel nor a later one is late. Of units without bytes: their kernel.
std::vector<uint64_t> latest_starts_before_deadline(std::span<const pipeline::UnitCosts> costs);

}  // namespace weightpager::budget
