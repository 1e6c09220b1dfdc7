#include "pager/policy/order_learner.h"

#include <algorithm>

namespace weightpager::policy {
namespace {

constexpr uint32_t times_doubted_max = 4;
// An engine that jumps in each pass does so because the order is wrong there, though only few
// chunks are. Where a visit is missing, two passes find it. An engine that jumps comes to the end
// of the order more than once in a pass of its own: so a pass without a jump takes one off, and one
// with a jump adds two.
constexpr uint32_t jumping_of_pass = 2;
constexpr uint32_t jumping_max = 4;
// A pass that is watched once more ends before so many whole passes have been read, as a rule.
constexpr uint32_t passes_learning_max = 4;
// So many times as many cramped touches say at once that the ring is too short.
constexpr uint32_t clearly_times = 2;
// When this many chunks in a row were touched before, the next pass has begun.
constexpr size_t touched_again_max = 8;
// Fewer first touches say nothing about an order.
constexpr size_t seen_min = 8;

}  // namespace

void OrderLearner::reset(uint32_t chunks) {
  has_begun_anew_ = false;
  seen_.reserve(chunks);
  touch_ranks_.assign(chunks, never);
  untouched_passes_.assign(chunks, 0);
  has_joined_.resize(chunks);
  begin();
  unseen_from_ = chunks;
}

void OrderLearner::begin() {
  is_learning_ = true;
  seen_.clear();
  std::fill(has_joined_.begin(), has_joined_.end(), false);
  touched_again_ = 0;
}

// Everything that is mapped and was not seen is hidden once, so that the next pass shows every
// first touch again.
void OrderLearner::begin_anew() {
  has_begun_anew_ = true;
  arrivals_ = 0;
  begin();
  std::fill(touch_ranks_.begin(), touch_ranks_.end(), never);
  unseen_from_ = 0;
}

void OrderLearner::drop_unseen() {
  for (ChunkId chunk = 0; chunk < touch_ranks_.size(); ++chunk) {
    if (touch_ranks_[chunk] == never && !has_joined_[chunk])
      untouched_passes_[chunk] = unused_after;
  }
}

bool OrderLearner::note_order(ChunkId chunk) {
  uint32_t& rank = touch_ranks_[chunk];
  const size_t seen = seen_.size();
  if (rank == never) {
    rank = static_cast<uint32_t>(seen);
    seen_.push_back(chunk);
    touched_again_ = 0;
    return false;
  }
  if (!is_learning_ || seen < seen_min || seen < order_.size() / 4 || rank >= seen / 2)
    return false;
  // The engine is back at chunks that it touched long ago, with nothing new between. So a pass is
  // over, and every chunk that it touches was seen.
  if (++touched_again_ < std::min(touched_again_max, seen / 8)) return false;
  end();
  return true;
}

void OrderLearner::end() {
  is_learning_ = false;
  arrivals_ = strays_ = jumps_ = jumping_ = 0;
  cramped_.reset();
}

void OrderLearner::note_untouched(ChunkId chunk) {
  if (!is_unused(chunk)) ++untouched_passes_[chunk];
}

void OrderLearner::note_arrival() {
  ++arrivals_;
  // Where pinned chunks cannot be hidden, no pass may show enough.
  const uint64_t reads_max = uint64_t{passes_learning_max} * order_.size();
  if (is_learning_ && has_begun_anew_ && arrivals_ >= reads_max) end();
  if (is_learning_ || arrivals_ < order_.size()) return;
  // A few such touches among so many reads come from threads out of step.
  arrivals_ = strays_ = 0;
}

void OrderLearner::end_pass() {
  if (is_learning_) return;
  cramped_.end_pass(ring_, saved_min());
  if (jumps_ > 0) {
    jumping_ += jumping_of_pass;
  } else if (jumping_ > 0) {
    --jumping_;
  }
  jumps_ = 0;
}

// Whether many first touches lay behind earlier ones, by more than threads out of step do; or went
// round the order more than once: an engine that goes to and fro between its two halves is always
// less than half an order ahead. The first half of the first pass does not count, because an engine
// that loads looks at places all over the model.
bool OrderLearner::is_contradicted(uint32_t apart_max) const {
  const uint32_t size = order_.size();
  uint32_t behind = 0;
  uint64_t forward_all = 0;
  size_t first = has_begun_anew_ ? 0 : seen_.size() / 2;
  // Of a chunk that is visited more than once, the first touch that is seen may be of any visit.
  while (first + 1 < seen_.size() && order_.is_revisited(seen_[first])) ++first;
  uint32_t farthest = order_.position(seen_[first]);
  for (size_t i = first; i < seen_.size(); ++i) {
    const uint32_t position = order_.nearest_visit(seen_[i], farthest);
    const uint32_t forward = (position + size - farthest) % size;
    if (forward <= size / 2) {
      farthest = position;
      forward_all += forward;
    } else if (size - forward > apart_max) {
      ++behind;
    }
  }
  // Of a pass that is watched once more, its beginning may be seen at its end only: what was mapped
  // and cannot be hidden is passed in silence.
  const uint64_t round = has_begun_anew_ ? size + size / 2 : size;
  return behind > std::max(4u, size / 100) || forward_all > round;
}

// With an order that was learned while the engine loaded, threads can look as if they were apart.
// So the order is doubted first.
OrderLearner::Doubt OrderLearner::doubt() {
  if (is_learning_) return Doubt::none;
  const bool is_wrong = is_much(strays_) || jumping_ > jumping_max;
  const bool is_first_order = is_corrected_ && times_doubted_ == 0 && !has_begun_anew_;
  const bool is_doubtful = is_first_order && (is_wrong || is_much(cramped_.count()));
  if (is_doubtful || (is_wrong && times_doubted_ < times_doubted_max)) {
    ++times_doubted_;
    return Doubt::order;
  }
  const bool is_clear = is_much(cramped_.count() / clearly_times);
  const uint32_t linger = is_clear ? cramped_.that_pays(ring_, saved_min()) : cramped_.lasting();
  if (linger <= linger_wanted_) return Doubt::none;
  linger_wanted_ = linger;
  cramped_.reset();
  return Doubt::ring;
}

}  // namespace weightpager::policy
