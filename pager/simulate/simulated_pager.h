// The simulated pager: one thread that does one thing after the other, as in PagerLoop::serve.
//
// It wakes, takes what was read, then all faults that have come, then does what the policy wants.
// Each of these takes its time (handling.h). The policy, the chunk table and the rules for what is
// read, shown and taken out together are those of the live pager; the disk is a model. Several
// threads may wait, for one chunk or for several; the policy hears of the first one at a chunk.
//
// The caller has the clock: it asks when the next step comes and lets it happen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "pager/simulate/disk_model.h"
#include "pager/simulate/engine_threads.h"
#include "pager/simulate/read_gatherer.h"
#include "pager/simulate/simulator.h"

namespace weightpager::simulate {

class SimulatedPager {
 public:
  /// A thread's chunk is there since `at_ns`.
  struct Served {
    uint32_t thread = 0;
    uint64_t at_ns = 0;
  };

  /// All three outlive this. `run` gets counters and the timeline.
  SimulatedPager(const Trace& trace, const SimulatorOptions& options, SimulatedRun& run);

  /// A pass begins; `keeps_timeline`: its reads are kept.
  void begin_pass(uint64_t now_ns, bool keeps_timeline);
  void resize(uint32_t chunks, uint64_t now_ns);
  /// A thread touches a chunk. Returns false if the chunk is not mapped: then the thread waits.
  bool touch(uint32_t thread, const Touch& touch, uint64_t now_ns) {
    ++run_.events;
    delivered_ = window::no_chunk;
    const bool is_mapped = table_.state(touch.chunk) == policy::ChunkState::mapped;
    if (is_mapped && !policy_->sees_every_touch()) return true;
    return touch_seen(thread, touch, now_ns, is_mapped);
  }

  /// When the pager takes its next step; never_ns if nothing is left to do.
  uint64_t next_step_ns() const {
    if (doing_ != Doing::sleeping) return pager_ns_;
    const uint64_t read_ns = disk_.is_idle() ? never_ns : disk_.next_finish_ns();
    const uint64_t fault_ns = faults_.empty() ? never_ns : faults_.front().seen_ns;
    return std::max(pager_ns_, std::min({read_ns, fault_ns, rung_ns_}));
  }
  void step();
  /// The time up to which the pager has worked.
  uint64_t clock_ns() const { return pager_ns_; }
  /// Threads wait, and nothing more comes by itself: the policy has to reconsider what was refused,
  /// and what it counts on.
  void stand_still();
  /// The threads that were served since the last call, into an empty list.
  void take_served(std::vector<Served>& served) { served.swap(served_); }
  bool has_served() const { return !served_.empty(); }

  const policy::ChunkTable& table() const { return table_; }
  /// Puts what the policy has learned into the run.
  void end();

  /// Adds it to the timeline, if the pass's is kept.
  void keep(TimelineSpan::Kind kind, ChunkId chunk, uint64_t begin_ns, uint64_t end_ns) {
    if (keeps_timeline_) add_to_timeline(kind, chunk, begin_ns, end_ns);
  }

 private:
  // What the thread does now, within one turn of its loop.
  enum class Doing { sleeping, taking_reads, taking_faults, carrying_out };

  struct Fault {
    const Touch* touch = nullptr;
    uint32_t thread = 0;
    uint64_t seen_ns = 0;  // when the pager may take it
  };
  struct Waiter {
    ChunkId chunk = window::no_chunk;
    uint32_t thread = 0;
  };

  bool touch_seen(uint32_t thread, const Touch& touch, uint64_t now_ns, bool is_mapped);
  void add_to_timeline(TimelineSpan::Kind kind, ChunkId chunk, uint64_t begin_ns, uint64_t end_ns);
  PassCounts& counts() { return run_.passes.back(); }
  /// Wakes the pager, though nothing was read and no thread waits.
  void ring(uint64_t now_ns);
  bool is_read_done() const;
  bool is_waited_for(ChunkId chunk) const;
  void take_read();
  void map_wanted();
  void take_faults();
  void take_fault(const Fault& fault);
  void map(const window::Run& run);
  void serve(ChunkId chunk);
  bool carry_out_one();
  void start_read(const policy::Action& action);
  void evict(const window::Run& run);
  void hide(ChunkId chunk);
  void take_out(uint32_t chunks);

  const Trace& trace_;
  const SimulatorOptions& options_;
  SimulatedRun& run_;
  const Handling handling_;
  const uint32_t move_chunks_max_;
  const std::vector<ChunkId> future_;
  policy::ChunkTable table_;
  const std::unique_ptr<policy::Policy> policy_;
  SimulatedDisk disk_;
  ReadGatherer reads_;
  uint32_t reads_max_ = 0;
  std::vector<bool> demanded_;  // by chunk: its last read was begun because a thread waited

  bool keeps_timeline_ = false;
  uint64_t pass_began_ns_ = 0;

  Doing doing_ = Doing::sleeping;
  uint64_t pager_ns_ = 0;
  uint64_t turn_began_ns_ = 0;
  uint64_t rung_ns_ = never_ns;
  std::vector<Fault> faults_;    // not taken yet, in the order of their times
  std::vector<Waiter> waiters_;  // whose faults were taken, in that order
  std::vector<Served> served_;
  ChunkId delivered_ = window::no_chunk;
  window::Run wanted_;  // chunks that were read and are to be shown
};

}  // namespace weightpager::simulate
