// What the baselines but belady have in common.
//
// What an engine thread waits for is read before anything else; what was just delivered, and what
// the kernel keeps, is not evicted; of the rest, whatever is oldest goes first. A policy adds what
// is to be read ahead, what must stay for that, and what "old" means to it.
//
// To write one, override what differs: `victim` (who goes), `touched` (what a touch means),
// `arrived` (what is mapped at once), `next_ahead` (what is read ahead). A policy that keeps chunks
// in a list of its own asks the table what is there: the kernel may refuse an eviction, and
// `last_resort` evicts without asking `victim`. No hook tells of a refusal, so a victim stays in
// that list until the table says that it is absent.
//
// Cost: O(1) an event, and for an eviction a walk over those old chunks that must stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/baselines/chunk_list.h"
#include "pager/policy/chunk_queue.h"
#include "pager/policy/evictability.h"
#include "pager/policy/policy.h"

namespace weightpager::policy {

class PolicyBase : public Policy {
 public:
  /// `table` outlives the policy.
  PolicyBase(const ChunkTable& table, const Settings& settings)
      : table_(table), settings_(settings), evictability_(table) {}

  void set_order(const ChunkOrder& order) final;
  void on_resized() override {}
  void on_touch(ChunkId chunk, uint32_t offset_bytes) final;
  bool on_ready(ChunkId chunk) final;
  void on_refused(ChunkId chunk) final;
  void on_not_hidden(ChunkId chunk) final { evictability_.note_not_hidden(chunk); }
  void on_standstill() final;
  void will_need(std::span<const ChunkId> chunks) final;
  void consumed(std::span<const ChunkId> chunks) final;
  Action next() final;
  const PolicyStatistics& statistics() const final { return statistics_; }

 protected:
  static constexpr uint32_t nowhere = UINT32_MAX;

  // What a policy adds.

  /// The order changed, or the policy begins: ages_ holds what is resident; forget everything else
  /// of your own.
  virtual void use_order() {}
  /// An engine thread came to the chunk.
  virtual void touched(ChunkId chunk) { ages_.put_front(chunk); }
  /// The chunk was read: whether to map it at once.
  virtual bool arrived(ChunkId /*chunk*/) { return true; }
  /// A mapped chunk whose next touch shall be seen, or no_chunk; each one once.
  virtual ChunkId next_hold() { return window::no_chunk; }
  /// The absent chunk to be read ahead, or no_chunk; the same until it is read.
  virtual ChunkId next_ahead() { return window::no_chunk; }
  /// Whether the chunk may make room for one that is read ahead.
  virtual bool may_go(ChunkId /*chunk*/) const { return true; }
  /// Evicts, or hides to learn who may be evicted.
  virtual Action victim(bool for_demand);

  // What it builds on.

  uint32_t chunks_in(uint64_t bytes) const {
    return static_cast<uint32_t>(bytes / settings_.chunk_bytes);
  }
  const ChunkOrder& order() const { return order_; }
  uint32_t order_size() const { return static_cast<uint32_t>(order_.cyclic.size()); }
  /// In the order, or nowhere.
  uint32_t position(ChunkId chunk) const { return positions_[chunk]; }
  /// Just delivered: the engine is at it, or about to be.
  bool is_recent(ChunkId chunk) const;
  bool is_evictable(ChunkId chunk) const { return evictability_.is_evictable(chunk); }
  bool can_be_hidden(ChunkId chunk) const { return evictability_.can_be_hidden(chunk); }
  /// The action, and what has to be noted with it.
  Action evict(ChunkId chunk);

  const ChunkTable& table_;
  const Settings settings_;
  /// What was touched or has arrived, and was not evicted since, oldest last. Some of it may not be
  /// there yet, or not any more: the table knows.
  ChunkList ages_;

 private:
  void count_pass(uint32_t position);
  Action demand();
  Action hide();
  Action advised();
  Action ahead();
  Action make_room(bool for_demand);
  Action last_resort();

  ChunkOrder order_;
  std::vector<uint32_t> positions_;  // by chunk
  Evictability evictability_;
  ChunkQueue demand_;
  ChunkQueue advice_;
  uint32_t last_position_ = 0;
  bool is_at_standstill_ = false;  // reads in flight may never end
  PolicyStatistics statistics_;
};

}  // namespace weightpager::policy
