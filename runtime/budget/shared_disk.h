// Several networks on one disk, without a disk: their schedules, the arbiter and a fake clock.
//
// Problem. Every network's share of the memory is planned as if the network had the disk to itself.
// Whether the plans hold when all networks read should be known before they run.
//
// Idea. The Schedule that the executor runs decides for each network what it wants to read. The
// DiskArbiter that would run live decides whose read is next. The disk works the reads off one
// after the other, each for its cost. Each network has processors of its own. Ties go by number, so
// the same networks always give the same times.
//
// Cost: O(networks) per event; some 100,000 events per second of four networks.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/budget/disk_arbiter.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::budget {

struct SharingNetwork {
  /// A two-stage schedule with nothing begun.
  pipeline::Schedule schedule;
  /// By the index of the schedule's units.
  std::vector<pipeline::UnitCosts> costs;
  /// An inference starts at every multiple of the period, or when the one before is finished, if
  /// that is later. 0: each starts right after the one before.
  uint64_t period_ns = 0;
  /// The time in which an inference should be finished; the arbiter measures slack by it.
  uint64_t deadline_ns = 0;
};

struct SharedDiskSettings {
  ArbiterSettings arbiter;
  /// Larger units are read in pieces of this size.
  uint64_t read_bytes_max = 2 << 20;
  /// The run ends when every network has finished so many; the others go on until then.
  uint32_t inferences_min = 1;
};

struct NetworkTimes {
  /// By inference, from its start to its end. The first inference begins with nothing in memory.
  std::vector<uint64_t> delays_ns;
  /// The number of delays that are longer than the deadline.
  uint32_t late = 0;
};

struct SharedDiskTimes {
  std::vector<NetworkTimes> networks;
  uint64_t end_ns = 0;
  uint64_t disk_busy_ns = 0;
};

SharedDiskTimes simulate_shared_disk(std::vector<SharingNetwork> networks,
                                     const SharedDiskSettings& settings);

}  // namespace weightpager::budget
