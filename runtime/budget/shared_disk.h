// Several networks on one disk, without a disk: their schedules, the arbiter and a fake clock.
//
// Problem. Every network's share of the memory is planned as if it had the disk to itself. Whether
// the plans hold when all of them read is another question, and one that a plan should answer
// before anybody runs it.
//
// Idea. The same Schedule that the executor runs decides for each network what it wants to read,
// the same DiskArbiter that would run live decides whose read is next, and the disk works them off
// one after the other for as long as they cost. Each network has processors of its own. Ties are
// resolved by number, so the same networks give the same times, always.
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
  /// Two-stage, nothing begun.
  pipeline::Schedule schedule;
  /// By index, of the schedule's units.
  std::vector<pipeline::UnitCosts> costs;
  /// An inference starts at every multiple of it, or when the one before is finished, if that is
  /// later; 0: each right after the one before.
  uint64_t period_ns = 0;
  /// After its start an inference should be finished; what the arbiter measures slack by.
  uint64_t deadline_ns = 0;
};

struct SharedDiskSettings {
  ArbiterSettings arbiter;
  /// Larger units are read in pieces of this.
  uint64_t read_bytes_max = 2 << 20;
  /// It ends when every network has finished so many; others go on until then.
  uint32_t inferences_min = 1;
};

struct NetworkTimes {
  /// By inference, from its start to its end. The first begins with nothing in memory.
  std::vector<uint64_t> delays_ns;
  /// Of these, longer than the deadline.
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
