// Which network's read goes to the disk next, when several networks share the disk.
//
// Problem. A network that reads far ahead fills the disk's queue. Another network that will stand
// still in a millisecond then waits behind it. First come, first served is fair to reads, but the
// network that runs out of time first should come first.
//
// Idea. A pure state machine. Every read comes with the latest time at which it may start without
// making its inference late: the deadline, minus the reading and computing that is left
// (`latest_starts_before_deadline`). Slack is that time minus now. Now is the same for all, so the
// read with the earliest latest start has the least slack, and no clock is needed. Of each network
// only the oldest read competes. Few bytes are at the disk at a time, so that an urgent read waits
// for little.
//
// A network whose deadlines are always past would take the whole disk. So a read goes first once
// other networks have started too many bytes before it. From when a read becomes its network's
// first until it starts, others start at most `overtaking_bytes_max` + networks · largest read.
// With 0 allowed, reads start in the order in which they became their network's first.
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
  /// The most bytes at the disk at a time; a single read may be larger.
  uint64_t in_flight_bytes_max = 8 << 20;
  uint64_t overtaking_bytes_max = 64 << 20;
};

/// For networks with these periods (0: none) and urgencies (1 is ordinary). Where no inference is
/// due and no network is urgent, reads take turns. By its planned time alone, every network that
/// shares processors would be late, and the later the longer its inference takes. So the slowest
/// network would go first, and the others would wait for its bursts.
ArbiterSettings arbiter_settings(std::span<const uint64_t> periods_ns,
                                 std::span<const double> urgencies);

struct DiskRead {
  /// For the caller; the arbiter passes it through.
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

  /// Puts the read behind all others that this network has asked for.
  void ask(uint32_t network, const DiskRead& read);
  void on_finished(uint64_t size_bytes);
  /// Forgets the network's reads that were not started.
  void leave(uint32_t network);

  struct Start {
    uint32_t network = 0;
    DiskRead read;
  };
  std::optional<Start> next();

  uint64_t in_flight_bytes() const { return in_flight_bytes_; }

 private:
  // A network's reads, and how the first of them fares.
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

/// By unit: how long before its inference's deadline its read must start, with the disk alone, so
/// that neither its kernel nor a later one is late. For a unit without bytes: its kernel's start.
std::vector<uint64_t> latest_starts_before_deadline(std::span<const pipeline::UnitCosts> costs);

}  // namespace weightpager::budget
