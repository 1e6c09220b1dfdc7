// `belady`: the bound. It is told all touches to come, and reads the fewest chunks that any policy
// with this window can.
//
// The chunk that has to go is the one that is needed again last (Belady 1966). These decisions are
// made once, for the whole trace, and then carried out as early as they may be: a chunk goes as
// soon as its last use before its eviction is over, and the next missing ones are read into the
// room. So the number of reads is the least there is, and most of their time is hidden
// ("conservative" prefetching, Cao et al. 1995). It is no bound on time: a policy that reads more,
// but at better moments, may be faster. The time that no policy beats is max(computing, least bytes
// / bandwidth).
//
// Cost: O(T log W) to plan T touches; O(1) amortised a touch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/policy.h"

namespace weightpager::policy {

class Belady final : public Policy {
 public:
  /// `table` outlives the policy, as does `future`: the chunks that will be touched, in order. Any
  /// other touch ends the program.
  Belady(const ChunkTable& table, const Settings& settings, std::span<const ChunkId> future);

  void set_order(const ChunkOrder& order) override;
  void on_resized() override { plan(); }
  void on_touch(ChunkId chunk, uint32_t offset_bytes) override;
  bool on_ready(ChunkId) override { return true; }
  void on_refused(ChunkId) override {}
  void on_not_hidden(ChunkId) override {}
  void on_standstill() override {}
  void will_need(std::span<const ChunkId>) override {}
  void consumed(std::span<const ChunkId>) override {}
  Action next() override;
  bool sees_every_touch() const override { return true; }
  const PolicyStatistics& statistics() const override { return statistics_; }

 private:
  // Touches are numbered by their index in the future.
  struct PlannedEviction {
    ChunkId chunk;
    int64_t last_use;  // of the chunk before its eviction; -1: none
  };
  struct PlannedRead {
    ChunkId chunk;
    int64_t needed_at;
  };

  void plan();

  const ChunkTable& table_;
  const Settings settings_;
  const std::span<const ChunkId> future_;
  std::vector<PlannedEviction> evictions_;  // by last use
  std::vector<PlannedRead> reads_;          // by need
  size_t evictions_done_ = 0;
  size_t reads_done_ = 0;
  int64_t touch_ = -1;  // the engine is at this touch
  PolicyStatistics statistics_;
};

/// How many reads the touches from touch `from` on cause, if the chunks that are touched most often
/// stay in a window of `window` chunks and all others share one slot of it. Where touches do not
/// depend on each other, no policy that does not know the future reads less on average (Aho,
/// Denning & Ullman, "Principles of Optimal Page Replacement", 1971: A0).
uint64_t reads_of_fixed_set(std::span<const ChunkId> touches, uint32_t chunks, uint32_t window,
                            size_t from);

/// The same without knowing the future: at each touch, the chunks stay that were touched most often
/// until then, and of equals the one that came first. This measures what past uses tell, not what a
/// policy can do: it counts every use of every chunk, and all chunks that do not stay share one
/// slot.
uint64_t reads_of_learned_set(std::span<const ChunkId> touches, uint32_t chunks, uint32_t window,
                              size_t from);

/// The least reads that serve these touches with a window of `window` chunks, which is empty at
/// first. Counts the reads that touches from touch `from` on cause.
uint64_t least_reads(std::span<const ChunkId> touches, uint32_t chunks, uint32_t window,
                     size_t from = 0);

}  // namespace weightpager::policy
