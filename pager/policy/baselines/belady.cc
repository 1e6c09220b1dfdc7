#include "pager/policy/baselines/belady.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::policy {
namespace {

constexpr uint32_t never = UINT32_MAX;

/// By touch: the next touch of the same chunk.
std::vector<uint32_t> next_uses_of(std::span<const ChunkId> touches, uint32_t chunks) {
  std::vector<uint32_t> next(touches.size(), never);
  std::vector<uint32_t> later(chunks, never);
  for (size_t touch = touches.size(); touch-- > 0;) {
    next[touch] = std::exchange(later[touches[touch]], static_cast<uint32_t>(touch));
  }
  return next;
}

/// The chunks in memory, sorted by their next use.
class HeldChunks {
 public:
  explicit HeldChunks(uint32_t chunks) : next_use_(chunks, not_there) {}

  bool contains(ChunkId chunk) const { return next_use_[chunk] != not_there; }
  size_t size() const { return by_next_use_.size(); }
  void put(ChunkId chunk, uint32_t next_use) {
    if (contains(chunk)) by_next_use_.erase({next_use_[chunk], chunk});
    next_use_[chunk] = next_use;
    by_next_use_.insert({next_use, chunk});
  }
  ChunkId take_last_needed() {
    const auto last = std::prev(by_next_use_.end());
    const ChunkId chunk = last->second;
    next_use_[chunk] = not_there;
    by_next_use_.erase(last);
    return chunk;
  }

 private:
  static constexpr uint64_t not_there = UINT64_MAX;
  std::vector<uint64_t> next_use_;  // by chunk
  std::set<std::pair<uint64_t, ChunkId>> by_next_use_;
};

}  // namespace

Belady::Belady(const ChunkTable& table, const Settings& settings, std::span<const ChunkId> future)
    : table_(table), settings_(settings), future_(future) {
  WP_ASSERT(future.size() < never);
}

void Belady::set_order(const ChunkOrder& /*order*/) { plan(); }

// Plans from the engine's current touch on, and begins with the chunks that are resident now.
void Belady::plan() {
  const std::vector<uint32_t> next = next_uses_of(future_, table_.chunks());
  const size_t window = table_.resident_max();
  std::vector<int64_t> last_use(table_.chunks(), -1);
  HeldChunks memory(table_.chunks());
  evictions_.clear();
  reads_.clear();
  evictions_done_ = reads_done_ = 0;

  const auto from = static_cast<size_t>(std::max<int64_t>(touch_, 0));
  std::vector<uint32_t> first_use(table_.chunks(), never);
  for (size_t touch = future_.size(); touch-- > from;) {
    first_use[future_[touch]] = static_cast<uint32_t>(touch);
  }
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    if (table_.is_resident(chunk)) memory.put(chunk, first_use[chunk]);
  }
  while (memory.size() > window) evictions_.push_back({memory.take_last_needed(), -1});
  for (size_t touch = from; touch < future_.size(); ++touch) {
    const ChunkId chunk = future_[touch];
    if (!memory.contains(chunk)) {
      if (memory.size() == window) {
        const ChunkId victim = memory.take_last_needed();
        evictions_.push_back({victim, last_use[victim]});
      }
      reads_.push_back({chunk, static_cast<int64_t>(touch)});
    }
    memory.put(chunk, next[touch]);
    last_use[chunk] = static_cast<int64_t>(touch);
  }
  std::stable_sort(
      evictions_.begin(), evictions_.end(),
      [](const PlannedEviction& a, const PlannedEviction& b) { return a.last_use < b.last_use; });
}

void Belady::on_touch(ChunkId chunk, uint32_t /*offset_bytes*/) {
  ++touch_;
  WP_ASSERT(static_cast<size_t>(touch_) < future_.size() && future_[touch_] == chunk);
}

// Reads go in the order of need, each as soon as there is room. A chunk that is still there,
// because it is to be evicted first, holds up the reads after it, which need its room.
Action Belady::next() {
  if (evictions_done_ < evictions_.size()) {
    const PlannedEviction& eviction = evictions_[evictions_done_];
    const ChunkState state = table_.state(eviction.chunk);
    const bool is_there = state == ChunkState::ready || state == ChunkState::mapped;
    if (eviction.last_use < touch_ && is_there) {
      ++evictions_done_;
      return {Action::Kind::evict, eviction.chunk};
    }
  }
  if (reads_done_ == reads_.size() || table_.room() == 0) return {};
  const PlannedRead& read = reads_[reads_done_];
  const bool is_demand = read.needed_at <= touch_;
  if (!is_demand && table_.reading() >= settings_.reads_max) return {};
  if (table_.state(read.chunk) != ChunkState::absent) return {};
  ++reads_done_;
  return {Action::Kind::read, read.chunk, is_demand};
}

uint64_t least_reads(std::span<const ChunkId> touches, uint32_t chunks, uint32_t window,
                     size_t from) {
  const std::vector<uint32_t> next = next_uses_of(touches, chunks);
  HeldChunks memory(chunks);
  uint64_t reads = 0;
  for (size_t touch = 0; touch < touches.size(); ++touch) {
    const ChunkId chunk = touches[touch];
    if (!memory.contains(chunk)) {
      reads += touch >= from;
      if (memory.size() == window) memory.take_last_needed();
    }
    memory.put(chunk, next[touch]);
  }
  return reads;
}

uint64_t reads_of_fixed_set(std::span<const ChunkId> touches, uint32_t chunks, uint32_t window,
                            size_t from) {
  std::vector<uint32_t> uses(chunks);
  for (const ChunkId chunk : touches) ++uses[chunk];
  std::vector<ChunkId> by_use(chunks);
  std::iota(by_use.begin(), by_use.end(), 0);
  const uint32_t kept = std::min(window - 1, chunks);
  std::nth_element(by_use.begin(), by_use.begin() + kept, by_use.end(),
                   [&](ChunkId a, ChunkId b) { return uses[a] > uses[b]; });
  std::vector<bool> stays(chunks);
  for (uint32_t i = 0; i < kept; ++i) stays[by_use[i]] = true;
  uint64_t reads = 0;
  ChunkId passing = window::no_chunk;
  for (size_t touch = 0; touch < touches.size(); ++touch) {
    const ChunkId chunk = touches[touch];
    if (stays[chunk] || chunk == passing) continue;
    passing = chunk;
    reads += touch >= from;
  }
  return reads;
}

uint64_t reads_of_learned_set(std::span<const ChunkId> touches, uint32_t chunks, uint32_t window,
                              size_t from) {
  const uint32_t kept_max = std::min(window - 1, chunks);
  std::vector<uint32_t> uses(chunks);
  std::vector<bool> stays(chunks);
  // Uses, then minus the touch that let the chunk in: of equals, the one that came last goes first.
  using Worth = std::tuple<uint32_t, int64_t, ChunkId>;
  std::vector<int64_t> since(chunks);
  std::set<Worth> kept;
  const auto worth = [&](ChunkId chunk) { return Worth{uses[chunk], since[chunk], chunk}; };
  uint64_t reads = 0;
  ChunkId passing = window::no_chunk;
  for (size_t touch = 0; touch < touches.size(); ++touch) {
    const ChunkId chunk = touches[touch];
    if (stays[chunk]) {
      kept.erase(worth(chunk));
      ++uses[chunk];
      kept.insert(worth(chunk));
      continue;
    }
    ++uses[chunk];
    if (std::exchange(passing, chunk) != chunk) reads += touch >= from;
    if (kept.size() == kept_max) {
      if (kept.empty() || uses[chunk] <= std::get<0>(*kept.begin())) continue;
      stays[std::get<2>(*kept.begin())] = false;
      kept.erase(kept.begin());
    }
    since[chunk] = -static_cast<int64_t>(touch);
    stays[chunk] = true;
    kept.insert(worth(chunk));
  }
  return reads;
}

}  // namespace weightpager::policy
