// Which experts stay in the window, and what to read when one is used.
//
// Problem. A token uses a few experts of each layer, and nobody knows which before the router has
// spoken. One expert is three slabs (gate, up, down) that lie tens of MB apart; an engine that
// faults its way through them waits for every chunk. What was used last says little about what is
// used next, and a warm-up that touches every expert once would push out all that is worth keeping.
//
// Idea. The first touch of any chunk of an expert asks for all of its chunks ("closure"): gate
// slabs of all experts in use before up slabs, up before down, which is the order in which engines
// want them. The experts that stay are those used most often or those used most recently, by
// whichever rule has predicted better of late (expert_rules.h). Past uses are remembered for
// experts outside the window, too: when the window grows, the experts that are worth most come back
// before they are used.
//
// Seeing uses. Mapped chunks are silent. So when the engine has gone on to another layer, one chunk
// of every expert that it used becomes a tripwire, which costs microseconds at the next use. With a
// mapper that cannot hide chunks, only uses that miss are counted.
//
// Slabs do not end where chunks end: a chunk at a seam belongs to two experts and stays while
// either is kept. The offset of a touch tells which of the two was meant.
//
// A part of PinStream, and like it a pure state machine that allocates only in `set_experts`. Cost:
// O(chunks of the expert) at its first touch in a pass, O(experts) for an expert that has to go,
// otherwise O(1).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/chunk_order.h"
#include "pager/policy/chunk_queue.h"
#include "pager/policy/expert_forecast.h"
#include "pager/policy/expert_rules.h"

namespace weightpager::policy {

class ExpertCache {
 public:
  /// What one touch adds to the caller's counters.
  struct UseCounts {
    bool is_use = false;  // the first touch of this expert in this pass over its layer
    uint32_t missing_chunks = 0;
    bool is_new_pass = false;
  };

  /// `table` outlives the cache.
  explicit ExpertCache(const ChunkTable& table) : table_(table) {}

  /// Replaces the experts and forgets all uses. Experts with resident chunks are kept for the time
  /// being. `experts` is sorted by layer, then by place in the file.
  void set_experts(std::span<const ExpertChunks> experts);
  /// How many chunks of the window experts may take.
  void set_budget(uint32_t chunks);

  uint32_t budget() const { return budget_; }

  bool is_empty() const { return experts_.empty(); }
  /// Chunks of all experts together, and of the largest one.
  uint32_t chunks() const { return chunk_count_; }
  uint32_t chunks_of_largest() const { return largest_; }
  /// Whether the chunk is an expert's.
  bool owns(ChunkId chunk) const { return owners_begin_[chunk] < owners_begin_[chunk + 1]; }
  /// Whether the chunk belongs to an expert that shall stay.
  bool keeps(ChunkId chunk) const { return claims_[chunk] > 0; }
  /// Whether some chunk has to go, or can go without loss.
  bool is_over_budget();

  // The next four functions require owns(chunk).
  UseCounts on_touch(ChunkId chunk, uint32_t offset_bytes);
  /// Advice: the chunk's expert will be used.
  void expect(ChunkId chunk);
  /// The chunk was read. Returns true if the chunk shall be mapped at once. A chunk that no expert
  /// claims any more is offered as a victim.
  bool on_ready(ChunkId chunk);
  /// Offers a resident chunk that no expert claims as a victim once more.
  void release(ChunkId chunk) { leaving_.push(chunk); }

  /// The next absent chunk of an expert in use, or no_chunk; the same until it is read or dropped.
  ChunkId next_read();
  /// Forgets the chunks of `next_read`, because there is no room for them. The engine asks for each
  /// of them again by touching it.
  void drop_reads();
  /// While experts take less than their budget: the next absent chunk of the expert outside the
  /// window that is worth most, or no_chunk. That expert is kept from then on, so the caller has to
  /// want to read the chunk.
  ChunkId next_return();
  /// A chunk that should become a tripwire, if it can be hidden, or no_chunk. Each one once.
  ChunkId next_hold();
  /// A ready or mapped chunk of the expert that is worth least, or no_chunk. Experts in use are
  /// never offered.
  ChunkId next_victim();
  /// Whether no expert claims this chunk any more, and it is the one that has to go next.
  bool goes_next(ChunkId chunk) const;
  /// Takes a chunk that goes next off the list.
  void let_go(ChunkId chunk);

 private:
  static constexpr size_t slabs_max = 3;  // later slabs are read with the third
  static constexpr uint32_t none = UINT32_MAX;

  struct CachedExpert {
    uint32_t layer = 0;
    uint32_t begin = 0;  // in parts_
    uint32_t end = 0;
    ChunkId tripwire = window::no_chunk;
    uint64_t visit = 0;  // the last visit to its layer in which it was used
    bool is_claimed = false;
    bool is_active = false;  // in use now: no victim

    uint32_t chunks() const { return end - begin; }
  };
  struct SlabChunk {
    ChunkId chunk;
    uint8_t slab;
  };
  /// The expert that bytes `begin_bytes` to `end_bytes` of a chunk belong to.
  struct ChunkOwner {
    uint32_t expert;
    uint32_t begin_bytes;
    uint32_t end_bytes;
  };

  void add_expert(const ExpertChunks& from, std::vector<uint32_t>& last_owner);
  void index_owners(std::span<const ExpertChunks> experts);
  void choose_tripwires();
  std::span<const SlabChunk> parts(const CachedExpert& expert) const;
  std::span<const ChunkOwner> owners(ChunkId chunk) const;
  bool is_alone(uint32_t expert, ChunkId chunk) const;
  bool can_leave(ChunkId chunk) const;
  bool is_used_now(const CachedExpert& expert) const { return expert.visit == visit_; }
  uint32_t owner_meant(ChunkId chunk, uint32_t offset_bytes) const;
  bool begin_visit(uint32_t layer);
  void activate(uint32_t expert);
  void deactivate_oldest();
  void claim(uint32_t expert);
  void unclaim(uint32_t expert);
  void ask_for(const CachedExpert& expert, ChunkId touched);
  uint32_t missing_chunks(const CachedExpert& expert) const;
  uint32_t find_least() const;
  uint32_t find_most_absent() const;

  const ChunkTable& table_;
  uint32_t budget_ = 0;
  std::vector<CachedExpert> experts_;
  std::vector<SlabChunk> parts_;  // by expert, in execution order
  uint32_t chunk_count_ = 0;
  uint32_t largest_ = 0;

  // By chunk: its owners are owners_[owners_begin_[chunk]] up to the next chunk's.
  std::vector<uint32_t> owners_begin_;
  std::vector<ChunkOwner> owners_;
  std::vector<uint32_t> claims_;  // by chunk: how many kept experts it belongs to
  uint32_t claimed_ = 0;          // chunks with a claim

  uint32_t layer_ = none;  // where the engine is
  uint64_t visit_ = 0;     // counts the engine's visits to layers
  std::vector<uint32_t> used_now_;
  size_t first_active_ = 0;  // those of used_now_ from here on are active
  uint32_t active_chunks_ = 0;

  ExpertForecast forecast_;
  ExpertRules rules_{forecast_};
  std::array<ChunkQueue, slabs_max> reads_;
  ChunkQueue holds_;
  ChunkQueue leaving_;
  ChunkQueue returning_;
};

}  // namespace weightpager::policy
