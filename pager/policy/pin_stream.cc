#include "pager/policy/pin_stream.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "pager/base/assert.h"
#include "pager/policy/reordered.h"

namespace weightpager::policy {
namespace {

constexpr uint64_t ring_bytes_min = 8 * MiB;
// Of what is no part of the cyclic order an engine looks at rows here and there, each of which
// takes a chunk, whatever its size.
constexpr uint32_t sparse_chunks_max = 16;

}  // namespace

// ---- The order, and what stays ----

PinStream::PinStream(const ChunkTable& table, const Settings& settings)
    : table_(table),
      settings_(settings),
      evictability_(table),
      linger_(chunks_in(linger_bytes_min)),
      experts_(table) {}

void PinStream::set_order(const ChunkOrder& order) {
  const uint32_t chunks = table_.chunks();
  facts_.assign(chunks, Facts{});
  evictability_.reset();
  for (ChunkId chunk : order.revisited) facts_[chunk].is_revisited = true;
  for (ChunkId chunk : order.kept) facts_[chunk].is_kept = true;
  demand_.reset(chunks);
  advice_.reset(chunks);
  consumed_.reserve(chunks);
  clock_.reserve(chunks);
  touched_in_order_.reserve(chunks);
  begin_learning();
  unlearned_ = chunks;
  experts_.set_experts(settings_.knows_experts ? std::span(order.experts)
                                               : std::span<const ExpertChunks>());
  is_order_taught_ = !order.lesson.is_empty();
  declared_order_ = is_order_taught_ ? reordered(order.cyclic, order.lesson.order) : order.cyclic;
  install_order(declared_order_);
  if (is_pass_expected_) begin_pass();
}

void PinStream::install_order(std::vector<ChunkId> order) {
  order_ = std::move(order);
  pace_.clear();
  use_order();
  order_changed(false);
}

// What two passes left untouched is not part of the pass: it loses its pin and its place.
void PinStream::shorten_order() {
  uint32_t left = 0;
  for (uint32_t position = 0; position < size(); ++position) {
    if (facts_[order_[position]].untouched_passes >= 2) continue;
    order_[left] = order_[position];
    if (!pace_.empty()) pace_[left] = pace_[position];
    ++left;
  }
  order_.resize(left);
  if (!pace_.empty()) pace_.resize(left);
  use_order();
  order_changed(true);
}

void PinStream::use_order() {
  for (Facts& facts : facts_) {
    facts.position = nowhere;
    facts.is_prefetched = false;
  }
  for (uint32_t position = 0; position < size(); ++position) {
    facts_[order_[position]].position = position;
  }
  has_cursor_ = false;
  ahead_ = 0;
  candidate_ = nowhere;
  choose_pins();
  rebuild_lists();
}

Lesson PinStream::lesson() const {
  if (!is_order_taught_ && pace_.empty()) return {};
  return {order_, pace_.empty() ? std::vector<float>(size(), 0) : pace_};
}

void PinStream::on_resized() {
  choose_pins();
  rebuild_lists();
}

void PinStream::set_pace(std::vector<float> pace) {
  WP_ASSERT(pace.size() == order_.size());
  pace_ = std::move(pace);
  on_resized();
}

// By position: what of it should be pinned, so that everywhere the same share of the time that the
// engine computes is needed to read the rest. Where it computes for so long that all could be
// streamed, nothing is pinned, and the others share what that saves.
std::vector<float> PinStream::pinned_shares() const {
  std::vector<float> shares(size(), 1);
  if (pace_.empty()) return shares;
  std::vector<bool> is_streamed(size(), false);
  for (;;) {
    double streamed = size() - pinned_;
    double time = 0;
    for (uint32_t at = 0; at < size(); ++at) {
      is_streamed[at] ? streamed -= 1 : time += pace_[at];
    }
    bool is_settled = true;
    for (uint32_t at = 0; at < size(); ++at) {
      const double share = is_streamed[at] || time <= 0 ? 1 : streamed * pace_[at] / time;
      is_settled = is_settled && (is_streamed[at] || share < 1);
      is_streamed[at] = share >= 1;
      shares[at] = static_cast<float>(1 - std::min(share, 1.0));
    }
    if (is_settled) return shares;
  }
}

// Splits the window into pins, ring and sparse share, and spreads the pins. Multiples of the golden
// ratio fill the circle evenly for every count, and a larger set contains each smaller one, so that
// a window that grows or shrinks moves as few pins as possible.
void PinStream::choose_pins() {
  for (Facts& facts : facts_) facts.is_pinned = false;
  const auto chunks = static_cast<uint32_t>(facts_.size());
  const uint32_t window = table_.resident_max();
  const uint32_t sparse_chunks = chunks - size() - experts_.chunks();
  sparse_max_ = std::min(sparse_chunks, std::clamp(window / 32, 2u, sparse_chunks_max));
  // Room for the experts of one layer to work in.
  const uint32_t experts_min = std::min(
      {experts_.chunks(), std::max(window / 8, 2 * experts_.chunks_of_largest()), window / 2});

  const uint32_t taken = sparse_max_ + experts_min;
  const uint32_t for_order = window > taken ? window - taken : 0;
  if (for_order >= size()) {
    // Everything that is cyclic fits; what is left over serves experts, then the rest.
    ring_ = 0;
    pinned_ = size();
    const uint32_t for_experts = std::min(experts_.chunks(), window - size() - sparse_max_);
    give_experts(for_experts);
    sparse_max_ = window - size() - for_experts;
  } else {
    give_experts(experts_min);
    const uint32_t missing = size() - for_order;
    const uint32_t ring_min = chunks_in(ring_bytes_min);
    const uint32_t ring_wanted =
        std::max({window / 4, ring_min, are_threads_apart_ ? ring_widest() : 0});
    ring_ = std::min(
        {chunks_in(settings_.ring_bytes_max), ring_wanted, std::max(missing, ring_min), for_order});
    pinned_ = for_order - ring_;
    // A short ring cannot afford to keep much of what is behind the cursor.
    linger_ = std::min(chunks_in(linger_bytes_min), std::max(ring_ / 4, 1u));
  }

  std::vector<uint32_t> positions(size());
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<float> shares = pinned_shares();
  const auto rank = [&](uint32_t position) {
    constexpr double golden_ratio = 0.6180339887498949;
    const double turn = position * golden_ratio - std::floor(position * golden_ratio);
    if (facts_[order_[position]].is_kept) return turn - 2;
    if (facts_[order_[position]].is_revisited) return turn - 1;
    return turn / std::max<double>(shares[position], 1e-6);
  };
  std::sort(positions.begin(), positions.end(),
            [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  for (uint32_t i = 0; i < pinned_; ++i) facts_[order_[positions[i]]].is_pinned = true;
}

// Some of it stays free for the next expert that is missing, if any can be: its reads start without
// waiting for evictions, and what leaves together leaves slots that lie side by side.
void PinStream::give_experts(uint32_t chunks) {
  const bool all_fit = chunks == experts_.chunks();
  spare_ = all_fit ? 0 : std::min(experts_.chunks_of_largest(), chunks / 16);
  experts_.set_budget(chunks - spare_);
}

// Offers everything for eviction that is resident without a reason.
void PinStream::rebuild_lists() {
  consumed_.clear();
  clock_.clear();
  hand_ = 0;
  for (Facts& facts : facts_) facts.is_consumed = facts.is_in_clock = false;
  for (ChunkId chunk = 0; chunk < facts_.size(); ++chunk) {
    if (!table_.is_resident(chunk) || facts_[chunk].is_pinned) continue;
    if (experts_.owns(chunk)) {
      if (!experts_.keeps(chunk)) experts_.release(chunk);
    } else if (facts_[chunk].position == nowhere) {
      add_to_clock(chunk);
    } else if (!is_around_cursor(chunk)) {
      facts_[chunk].is_consumed = true;
      consumed_.push_back(chunk);
    }
  }
}

// ---- Events that are no touches ----

bool PinStream::on_ready(ChunkId chunk) {
  is_at_standstill_ = false;
  // What is few among so many reads are threads out of step.
  if (++arrivals_ >= size() && !is_learning_) arrivals_ = strays_ = cramped_ = 0;
  Facts& facts = facts_[chunk];
  if (is_recent(chunk)) evictability_.note_delivery(chunk);
  if (experts_.owns(chunk)) return experts_.on_ready(chunk);
  if (facts.position == nowhere) {
    add_to_clock(chunk);
    return false;
  }
  if (!facts.is_pinned && !is_around_cursor(chunk) && !facts.is_consumed) add_to_clock(chunk);
  if (facts.touch_rank == nowhere) return false;
  if (facts.is_pinned) return true;
  if (++since_tripwire_ < std::max(ring_ / 8, 1u)) return true;
  since_tripwire_ = 0;
  return false;
}

// The cursor offers cyclic chunks again when it passes them; others are found by the clock.
void PinStream::on_refused(ChunkId chunk) {
  evictability_.note_refusal(chunk);
  const bool is_kept = experts_.owns(chunk) && experts_.keeps(chunk);
  if (facts_[chunk].position == nowhere && !is_kept) add_to_clock(chunk);
}

void PinStream::on_standstill() {
  is_at_standstill_ = true;
  evictability_.forget_refusals();
}

void PinStream::will_need(std::span<const ChunkId> chunks) {
  if (chunks.size() > table_.resident_max() / 2) {
    if (evictability_.touches() > 0) return;
    is_pass_expected_ = true;
    return begin_pass();
  }
  for (ChunkId chunk : chunks) {
    if (experts_.owns(chunk)) experts_.expect(chunk);
    advice_.push(chunk);
  }
}

// Nobody has touched anything yet, but will: reads from the beginning of the order, as far as there
// are slots, while the engine still sets itself up.
void PinStream::begin_pass() {
  if (has_cursor_ || order_.empty()) return;
  jump_to(0);
  ahead_max_ = table_.resident_max();
}

void PinStream::consumed(std::span<const ChunkId> chunks) {
  for (ChunkId chunk : chunks) {
    if (!experts_.owns(chunk)) list_consumed(chunk);
  }
}

}  // namespace weightpager::policy
