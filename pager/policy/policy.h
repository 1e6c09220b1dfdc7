// What every policy is: a pure state machine that is told events and asked for actions.
//
// Events: a touch, a read that ended, what the kernel refused, advice, the window's size. Actions:
// read, evict, hide (take a chunk out of the engine's sight and keep its bytes). A policy knows no
// I/O, no threads and no clock of its own; it reads the chunk table and never writes it. So the
// live pager, the simulator (simulate/simulator.h) and the tests drive the same objects, and what
// the simulator says about a policy is said about the one that runs.
//
// A policy sees no more than a userfaultfd shows: touches of chunks that are not mapped. Only
// `belady`, which cannot run live anyway, asks for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "pager/base/units.h"
#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

/// What the driver shall do now. `evict` and `hide` may fail; see `on_refused`, `on_not_hidden`.
struct Action {
  enum class Kind {
    none,   // nothing to do until the next event
    read,   // absent → reading; the table has room for it
    evict,  // ready or mapped → absent
    hide,   // mapped → ready: keep the bytes, notice the next touch
  };
  Kind kind = Kind::none;
  ChunkId chunk = window::no_chunk;
  /// An engine thread waits for it. The live pager reads in the order of the actions, whether this
  /// is set or not, and the read overtakes none that is in flight; the simulator tells by it what
  /// was read on demand.
  bool is_demand = false;
  /// Of `evict`: so many, one after the other, from `chunk` on.
  uint32_t count = 1;
  /// Of `hide`: whoever uses the chunk touches all of it, so that any page of it tells.
  bool is_used_whole = false;
};

struct Settings {
  uint64_t chunk_bytes = chunk_bytes_max;
  /// Reads in flight, at most.
  uint32_t reads_max = 16;
  /// Chunks that one action evicts, at most.
  uint32_t evictions_max = 1;
};

/// Reads that may be in flight beyond Settings::reads_max, so that a read that an engine thread
/// waits for finds a place in the reader, however much is read ahead. There it may still wait for
/// the ring (io/uring_reader.cc) and at the device.
inline constexpr uint32_t demand_reads_max = 64;

/// Settings::reads_max for a device that likes so many bytes in flight.
inline uint32_t reads_ahead_max(uint64_t in_flight_bytes, uint64_t chunk_bytes,
                                uint32_t window_chunks) {
  const uint32_t most = std::max(window_chunks / 4, 4u);
  return static_cast<uint32_t>(std::clamp<uint64_t>(in_flight_bytes / chunk_bytes, 4, most));
}

/// Counters since the beginning.
struct PolicyStatistics {
  uint64_t passes = 0;
  uint64_t prefetch_hidden = 0;  // prefetched, and ready before the engine came
  uint64_t prefetch_unused = 0;  // prefetched, and evicted before the engine came
  uint64_t order_corrections = 0;
  uint64_t profiles_learned = 0;       // times that it learned something new for `access_profile()`
  uint64_t expert_uses = 0;            // an expert in a pass over its layer
  uint64_t expert_misses = 0;          // … of which some chunks were absent
  uint64_t expert_chunks_missing = 0;  // … these

  PolicyStatistics& operator+=(const PolicyStatistics& other) {
    passes += other.passes;
    prefetch_hidden += other.prefetch_hidden;
    prefetch_unused += other.prefetch_unused;
    order_corrections += other.order_corrections;
    profiles_learned += other.profiles_learned;
    expert_uses += other.expert_uses;
    expert_misses += other.expert_misses;
    expert_chunks_missing += other.expert_chunks_missing;
    return *this;
  }
};

/// Events allocate nothing, but where an order is learned.
class Policy {
 public:
  virtual ~Policy() = default;

  /// The set of chunks changed, or what is known about their use. Called before the first touch,
  /// read or advice; only `on_time`, `on_resized`, `next` and what is const may be called earlier.
  /// Chunks in none of the lists are sparse. What was learned about the order before is forgotten,
  /// except what `order` says.
  virtual void set_order(const ChunkOrder& order) = 0;
  /// The table's resident_max changed.
  virtual void on_resized() = 0;

  /// The time of the events that follow, by the driver's clock, which never goes back.
  virtual void on_time(uint64_t /*now_ns*/) {}
  /// An engine thread touched a chunk that is not mapped, and waits. `offset_bytes`: where in the
  /// chunk, or `anywhere`.
  virtual void on_touch(ChunkId chunk, uint32_t offset_bytes) = 0;
  /// The engine has touched a chunk of its own memory for the first time, and fills it: to evict
  /// the chunk costs a write. Many such chunks mean that the engine loads, until an order says that
  /// the load is over (ChunkOrder::is_load_over).
  virtual void on_growth(ChunkId /*chunk*/) {}
  /// The chunk was read without an error. Returns true if it shall be mapped now, false if it shall
  /// stay ready, as a tripwire. (A chunk that an engine thread waits for is mapped in any case.)
  virtual bool on_ready(ChunkId chunk) = 0;
  /// The kernel refused to evict the chunk, because somebody pins its pages. The policy does not
  /// ask for it again for a while (evictability.h).
  virtual void on_refused(ChunkId chunk) = 0;
  /// The chunk could not be hidden, for example because the engine may write to it where the mapper
  /// would lose what it writes meanwhile. The chunk can still be evicted. The policy does not ask
  /// to hide it again for a while.
  virtual void on_not_hidden(ChunkId chunk) = 0;
  /// Threads wait, and nothing has happened for a while. The policy may ask again for what was
  /// refused, and does not count on reads in flight until the next one ends. O(N).
  virtual void on_standstill() = 0;
  /// Advice: these chunks are needed soon. Chunks of more than half of the window cannot all be
  /// read: such advice only says that a pass will begin.
  virtual void will_need(std::span<const ChunkId> chunks) = 0;
  /// Advice: these chunks are not needed again in this pass.
  virtual void consumed(std::span<const ChunkId> chunks) = 0;

  /// The next action, or `none`. The driver calls this until it returns `none`, and carries out
  /// each action before the next call. A read that a thread waits for comes before any other; what
  /// a thread waits for, and what was given out last, is not evicted
  /// (tests/simulate/properties_test.cc). The same events give the same actions: a policy that
  /// draws lots has a fixed seed.
  virtual Action next() = 0;

  /// Whether on_touch has to be called for mapped chunks, too. No live driver can do that.
  virtual bool sees_every_touch() const { return false; }
  /// The parts of the window that stream and that stay, where the policy divides it.
  virtual uint32_t ring_chunks() const { return 0; }
  virtual uint32_t pinned_chunks() const { return 0; }
  /// Whether the chunk is one of those that stay.
  virtual bool is_pinned(ChunkId /*chunk*/) const { return false; }
  /// What another policy can begin with; empty, if this one learns nothing or has not yet.
  virtual AccessProfile access_profile() const { return {}; }
  virtual const PolicyStatistics& statistics() const = 0;
};

}  // namespace weightpager::policy
