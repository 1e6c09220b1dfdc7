// A simulated run of a trace with a policy, a disk and a window: how long each pass takes and what
// it reads.
//
// The policies, the chunk table and the rules for what is read, shown and taken out together are
// those of the live pager; only disk, clock and engine are simulated. The engine's threads touch
// what the trace says (engine_threads.h); a touch of a chunk that is not mapped is a fault. The
// pager is another thread, which does one thing after the other (simulated_pager.h). The window's
// memory is there from the beginning. Deterministic. Cost: some hundred nanoseconds an event
// (bench/simulate_bench.cc), and one more for each thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/policy/named/make_policy.h"
#include "pager/simulate/disk_model.h"
#include "pager/simulate/handling.h"
#include "pager/simulate/trace.h"

namespace weightpager::simulate {

struct Situation {
  const policy::ChunkTable& table;
  /// The chunk that the engine waits for, as far as the pager knows, or no_chunk. If several
  /// threads wait: for the longest time.
  ChunkId waited_for;
  /// The chunk that the engine computes from, if the pager saw the engine wait for it, otherwise
  /// no_chunk: the policy cannot know of other chunks. (If the chunk arrives while the engine's
  /// fault is on its way, the engine no longer waits when the pager hears of the fault.)
  ChunkId delivered;
};

struct SimulatorOptions {
  std::string policy{policy::default_policy};
  uint32_t window_chunks = 0;
  DiskModel disk;
  Handling handling;
  uint64_t seed = 1;
  /// The engine's threads compute on so many; the pager has one more.
  uint32_t processors = UINT32_MAX;
  /// A mapped chunk keeps its slot, as with mappers `move` and `collapse`. Mapper `copy` frees the
  /// slot, so that nothing can be hidden.
  bool keeps_slot = true;
  /// The pass whose reads, stalls and computing are kept, if the trace has that many passes.
  size_t timeline_pass = SIZE_MAX;
  /// From this pass on the window has `resize_chunks` chunks, if the trace has that many passes.
  size_t resize_pass = SIZE_MAX;
  uint32_t resize_chunks = 0;
  /// The engine stands still before these passes until the pager has nothing more to do.
  std::function<bool(size_t pass)> pauses_before;
  /// Called when a pass is about to begin; the window is already that pass's.
  std::function<void(size_t pass, const policy::ChunkTable& table)> before_pass;
  /// If this becomes true the run ends, and fails.
  const std::atomic<bool>* is_abandoned = nullptr;
  /// Called before each action is carried out. For tests.
  std::function<void(const policy::Action& action, const Situation& now)> on_action;
};

struct PassCounts {
  uint64_t time_ns = 0;
  uint64_t stall_ns = 0;      // of all threads together
  uint64_t compute_ns = 0;    // of all threads together
  uint64_t reads = 0;         // chunks, counted when their reading begins
  uint64_t demand_reads = 0;  // … that an engine thread waited for
  uint64_t late_touches = 0;  // touches of chunks that were being read
  uint64_t tripwires = 0;     // touches of chunks that were ready, and not mapped
  uint64_t shows = 0;         // neighbours that are shown together count once
  uint64_t take_outs = 0;     // the same for chunks that are evicted or hidden
};

struct TimelineSpan {
  enum class Kind : uint8_t { read, demand_read, stall, compute };
  Kind kind;
  ChunkId chunk;
  uint64_t begin_ns;  // since the pass began
  uint64_t end_ns;
};

struct SimulatedRun {
  std::vector<PassCounts> passes;
  std::vector<TimelineSpan> timeline;
  policy::PolicyStatistics statistics;
  policy::AccessProfile access_profile;
  uint32_t pinned_chunks = 0;
  uint32_t ring_chunks = 0;
  /// Touches, reads, actions.
  uint64_t events = 0;
};

/// The smallest window for any policy: it has room for some threads and a read ahead.
inline constexpr uint32_t window_chunks_min = 16;

/// Fails if the policy is unknown, the window smaller than window_chunks_min, or the run abandoned;
/// and for `belady` if there are several threads, since their touches have no order beforehand.
Result<SimulatedRun> simulate(const Trace& trace, const SimulatorOptions& options);

}  // namespace weightpager::simulate
