#include "pager/policy/expert_cache.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weightpager::policy {
namespace {

using window::ChunkState;
using window::no_chunk;

// Long enough to tell frequencies apart (within 4 % of knowing them, simulated), short enough to
// follow a text's change of subject.
constexpr double half_life_passes = 64;
// Far below where doubles end.
constexpr double weight_max = 0x1p200;

bool is_in_memory(ChunkState state) {
  return state == ChunkState::ready || state == ChunkState::mapped;
}

}  // namespace

// ---- What belongs to whom ----

void ExpertCache::set_experts(std::span<const ExpertChunks> experts) {
  const uint32_t chunks = table_.chunks();
  experts_.clear();
  parts_.clear();
  largest_ = 0;
  std::vector<uint32_t> last_owner(chunks, none);
  for (const ExpertChunks& expert : experts) add_expert(expert, last_owner);
  chunk_count_ = static_cast<uint32_t>(
      std::count_if(last_owner.begin(), last_owner.end(), [](uint32_t it) { return it != none; }));
  index_owners();
  choose_tripwires();

  claims_.assign(chunks, 0);
  claimed_ = 0;
  layer_ = none;
  visit_ = 1;
  used_now_.clear();
  used_now_.reserve(experts_.size());
  first_active_ = active_chunks_ = 0;
  ranking_.clear();
  ranking_.reserve(experts_.size());
  for (ChunkQueue& queue : reads_) queue.reset(chunks);
  holds_.reset(chunks);
  leaving_.reset(chunks);

  // What is resident already is kept, for the time being.
  for (uint32_t expert = 0; expert < experts_.size(); ++expert) {
    const auto of_expert = parts(experts_[expert]);
    if (std::any_of(of_expert.begin(), of_expert.end(),
                    [&](const Part& part) { return table_.is_resident(part.chunk); })) {
      claim(expert);
      rank(expert);
    }
  }
}

// A chunk in which one slab of the expert ends and the next begins counts once.
void ExpertCache::add_expert(const ExpertChunks& from, std::vector<uint32_t>& last_owner) {
  const auto number = static_cast<uint32_t>(experts_.size());
  Expert expert{.layer = from.layer, .begin = static_cast<uint32_t>(parts_.size())};
  for (size_t slab = 0; slab < from.slabs.size(); ++slab) {
    for (ChunkId chunk : from.slabs[slab]) {
      if (std::exchange(last_owner[chunk], number) == number) continue;
      parts_.push_back({chunk, static_cast<uint8_t>(std::min(slab, slabs_max - 1))});
    }
  }
  expert.end = static_cast<uint32_t>(parts_.size());
  if (expert.chunks() == 0) return;
  largest_ = std::max(largest_, expert.chunks());
  experts_.push_back(expert);
}

void ExpertCache::index_owners() {
  owners_begin_.assign(table_.chunks() + 1, 0);
  for (const Part& part : parts_) ++owners_begin_[part.chunk + 1];
  for (size_t i = 1; i < owners_begin_.size(); ++i) owners_begin_[i] += owners_begin_[i - 1];
  owners_.resize(parts_.size());
  std::vector<uint32_t> next(owners_begin_.begin(), owners_begin_.end() - 1);
  for (uint32_t expert = 0; expert < experts_.size(); ++expert) {
    for (const Part& part : parts(experts_[expert])) owners_[next[part.chunk]++] = expert;
  }
}

// The first chunk that is the expert's alone, so that its neighbours do not trip it.
void ExpertCache::choose_tripwires() {
  for (Expert& expert : experts_) {
    const auto of_expert = parts(expert);
    const auto alone = std::find_if(of_expert.begin(), of_expert.end(), [&](const Part& part) {
      return owners(part.chunk).size() == 1;
    });
    expert.tripwire = alone == of_expert.end() ? of_expert.front().chunk : alone->chunk;
  }
}

std::span<const ExpertCache::Part> ExpertCache::parts(const Expert& expert) const {
  return std::span(parts_).subspan(expert.begin, expert.chunks());
}

std::span<const uint32_t> ExpertCache::owners(ChunkId chunk) const {
  return std::span(owners_).subspan(owners_begin_[chunk],
                                    owners_begin_[chunk + 1] - owners_begin_[chunk]);
}

uint32_t ExpertCache::owner_meant(ChunkId chunk) const {
  const auto candidates = owners(chunk);
  for (size_t i = candidates.size(); i-- > 0;) {
    if (is_used_now(experts_[candidates[i]])) return candidates[i];
  }
  return candidates.back();
}

// ---- Uses ----

ExpertCache::Touch ExpertCache::on_touch(ChunkId chunk) {
  const uint32_t number = owner_meant(chunk);
  Expert& expert = experts_[number];
  Touch touch;
  if (expert.layer != layer_) touch.is_new_pass = begin_visit(expert.layer);
  touch.is_use = !is_used_now(expert);
  if (!touch.is_use) {
    // A part that was dropped, or evicted too early.
    if (!expert.is_claimed) {
      claim(number);
      rank(number);
    }
    if (table_.state(chunk) == ChunkState::absent) ask_for(expert, chunk);
    return touch;
  }
  expert.visit = visit_;
  expert.last_use = ++uses_;
  expert.score += weight_;
  activate(number);
  touch.missing_chunks = missing_chunks(expert);
  if (touch.missing_chunks > 0) ask_for(expert, chunk);
  return touch;
}

// The engine came to another layer: what it used before may go, and shall show its next use.
// Returns whether a pass has begun.
bool ExpertCache::begin_visit(uint32_t layer) {
  while (first_active_ < used_now_.size()) deactivate_oldest();
  // Where everything fits, nobody needs to know what is used most.
  if (chunk_count_ > budget_) {
    for (uint32_t expert : used_now_) holds_.push(experts_[expert].tripwire);
  }
  used_now_.clear();
  first_active_ = 0;
  ++visit_;
  const bool is_new_pass = layer_ == none || layer < layer_;
  layer_ = layer;
  if (is_new_pass) age();
  return is_new_pass;
}

// Instead of taking from all counts, later uses count for more: ranks stay as they are.
void ExpertCache::age() {
  weight_ *= std::exp2(1 / half_life_passes);
  if (weight_ < weight_max) return;
  for (Expert& expert : experts_) expert.score /= weight_;
  for (Rank& rank : ranking_) rank.score /= weight_;
  weight_ = 1;
}

// Experts in use are safe from eviction, unless they take more than half of what there is.
void ExpertCache::activate(uint32_t expert) {
  claim(expert);
  experts_[expert].is_active = true;
  used_now_.push_back(expert);
  active_chunks_ += experts_[expert].chunks();
  while (active_chunks_ > budget_ / 2 && first_active_ + 1 < used_now_.size()) deactivate_oldest();
}

void ExpertCache::deactivate_oldest() {
  const uint32_t expert = used_now_[first_active_++];
  experts_[expert].is_active = false;
  active_chunks_ -= experts_[expert].chunks();
  rank(expert);
}

void ExpertCache::expect(ChunkId chunk) {
  const uint32_t expert = owner_meant(chunk);
  claim(expert);
  rank(expert);
}

// ---- Reads ----

// Of an expert that the engine came to at `touched`, whatever is absent. Where more experts are in
// use than there is room for (a prompt uses nearly all of them), only the slab that was touched:
// the others would have to go again before the engine comes to them.
void ExpertCache::ask_for(const Expert& expert, ChunkId touched) {
  const auto of_expert = parts(expert);
  const auto at = std::find_if(of_expert.begin(), of_expert.end(),
                               [&](const Part& part) { return part.chunk == touched; });
  const bool is_crowded = first_active_ > 0 || expert.chunks() > budget_;
  for (const Part& part : of_expert) {
    if (is_crowded && part.slab != at->slab) continue;
    if (table_.state(part.chunk) == ChunkState::absent) reads_[part.slab].push(part.chunk);
  }
}

uint32_t ExpertCache::missing_chunks(const Expert& expert) const {
  const auto of_expert = parts(expert);
  return static_cast<uint32_t>(std::count_if(
      of_expert.begin(), of_expert.end(),
      [&](const Part& part) { return table_.state(part.chunk) == ChunkState::absent; }));
}

ChunkId ExpertCache::next_read() {
  for (ChunkQueue& queue : reads_) {
    for (; !queue.is_empty(); queue.pop()) {
      const ChunkId chunk = queue.front();
      if (keeps(chunk) && table_.state(chunk) == ChunkState::absent) return chunk;
    }
  }
  return no_chunk;
}

void ExpertCache::drop_reads() {
  for (ChunkQueue& queue : reads_) {
    while (!queue.is_empty()) queue.pop();
  }
}

bool ExpertCache::on_ready(ChunkId chunk) {
  if (!keeps(chunk)) {
    leaving_.push(chunk);
    return false;
  }
  // It came after the engine had left: the next use shall be seen.
  for (uint32_t expert : owners(chunk)) {
    if (experts_[expert].tripwire == chunk && !is_used_now(experts_[expert])) return false;
  }
  return true;
}

ChunkId ExpertCache::next_hold() {
  if (holds_.is_empty()) return no_chunk;
  const ChunkId chunk = holds_.front();
  holds_.pop();
  return chunk;
}

// ---- Who has to go ----

void ExpertCache::claim(uint32_t number) {
  Expert& expert = experts_[number];
  if (std::exchange(expert.is_claimed, true)) return;
  for (const Part& part : parts(expert)) claimed_ += claims_[part.chunk]++ == 0;
}

void ExpertCache::unclaim(uint32_t number) {
  Expert& expert = experts_[number];
  expert.is_claimed = false;
  for (const Part& part : parts(expert)) {
    if (--claims_[part.chunk] > 0) continue;
    --claimed_;
    if (is_in_memory(table_.state(part.chunk))) leaving_.push(part.chunk);
  }
}

ChunkId ExpertCache::next_victim() {
  for (;;) {
    while (!leaving_.is_empty()) {
      const ChunkId chunk = leaving_.front();
      leaving_.pop();
      if (!keeps(chunk) && is_in_memory(table_.state(chunk))) return chunk;
    }
    const uint32_t least = pop_least();
    if (least == none) return no_chunk;
    unclaim(least);
  }
}

namespace {

// For a heap with the least at its front. Of equals the one used last is worth least: of layers
// that are swept in a circle it is needed again last.
constexpr auto is_worth_more = [](const auto& a, const auto& b) {
  return std::pair(a.score, b.last_use) > std::pair(b.score, a.last_use);
};

}  // namespace

void ExpertCache::rank(uint32_t number) {
  Expert& expert = experts_[number];
  if (std::exchange(expert.is_ranked, true)) return;
  ranking_.push_back({expert.score, expert.last_use, number});
  std::push_heap(ranking_.begin(), ranking_.end(), is_worth_more);
}

// A rank is never above the expert's worth of today, so that whoever is least by an up-to-date rank
// is least.
uint32_t ExpertCache::pop_least() {
  while (!ranking_.empty()) {
    const Rank least = ranking_.front();
    std::pop_heap(ranking_.begin(), ranking_.end(), is_worth_more);
    ranking_.pop_back();
    Expert& expert = experts_[least.expert];
    expert.is_ranked = false;
    if (expert.is_active) continue;  // ranked again when it is not in use any more
    if (least.last_use == expert.last_use) return least.expert;
    rank(least.expert);
  }
  return none;
}

}  // namespace weightpager::policy
