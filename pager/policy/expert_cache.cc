#include "pager/policy/expert_cache.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::policy {
namespace {

using window::ChunkState;
using window::no_chunk;

bool is_in_memory(ChunkState state) {
  return state == ChunkState::ready || state == ChunkState::mapped;
}

}  // namespace

// ---- Which chunks belong to which experts ----

void ExpertCache::set_experts(std::span<const ExpertChunks> experts) {
  const uint32_t chunks = table_.chunks();
  experts_.clear();
  parts_.clear();
  largest_ = 0;
  std::vector<uint32_t> last_owner(chunks, none);
  for (const ExpertChunks& expert : experts) add_expert(expert, last_owner);
  chunk_count_ = static_cast<uint32_t>(
      std::count_if(last_owner.begin(), last_owner.end(), [](uint32_t it) { return it != none; }));
  index_owners(experts);
  choose_tripwires();

  claims_.assign(chunks, 0);
  claimed_ = 0;
  layer_ = none;
  visit_ = 1;
  used_now_.clear();
  used_now_.reserve(experts_.size());
  first_active_ = active_chunks_ = 0;
  std::vector<ExpertRules::ExpertSize> sizes;
  std::vector<uint32_t> layers;
  for (const CachedExpert& expert : experts_) {
    sizes.push_back({expert.layer, expert.chunks()});
    layers.push_back(expert.layer);
  }
  forecast_.reset(layers);
  rules_.reset(sizes);
  for (ChunkQueue& queue : reads_) queue.reset(chunks);
  holds_.reset(chunks);
  leaving_.reset(chunks);
  returning_.reset(chunks);

  // Experts with resident chunks are kept for the time being.
  for (uint32_t expert = 0; expert < experts_.size(); ++expert) {
    const auto of_expert = parts(experts_[expert]);
    if (std::any_of(of_expert.begin(), of_expert.end(),
                    [&](const SlabChunk& part) { return table_.is_resident(part.chunk); })) {
      claim(expert);
    }
  }
}

void ExpertCache::set_budget(uint32_t chunks) {
  budget_ = chunks;
  rules_.set_budget(chunks);
}

// A chunk in which one slab of the expert ends and the next begins counts once.
void ExpertCache::add_expert(const ExpertChunks& from, std::vector<uint32_t>& last_owner) {
  const auto number = static_cast<uint32_t>(experts_.size());
  CachedExpert expert{.layer = from.layer, .begin = static_cast<uint32_t>(parts_.size())};
  for (size_t slab = 0; slab < from.slabs.size(); ++slab) {
    for (const ChunkPart& part : from.slabs[slab]) {
      if (std::exchange(last_owner[part.chunk], number) == number) continue;
      parts_.push_back({part.chunk, static_cast<uint8_t>(std::min(slab, slabs_max - 1))});
    }
  }
  expert.end = static_cast<uint32_t>(parts_.size());
  largest_ = std::max(largest_, expert.chunks());
  experts_.push_back(expert);
}

void ExpertCache::index_owners(std::span<const ExpertChunks> experts) {
  const auto for_each_part = [&](auto use) {
    for (uint32_t expert = 0; expert < experts.size(); ++expert) {
      for (const auto& slab : experts[expert].slabs) {
        for (const ChunkPart& part : slab) use(expert, part);
      }
    }
  };
  owners_begin_.assign(table_.chunks() + 1, 0);
  for_each_part([&](uint32_t, const ChunkPart& part) { ++owners_begin_[part.chunk + 1]; });
  for (size_t i = 1; i < owners_begin_.size(); ++i) owners_begin_[i] += owners_begin_[i - 1];
  owners_.resize(owners_begin_.back());
  std::vector<uint32_t> next(owners_begin_.begin(), owners_begin_.end() - 1);
  for_each_part([&](uint32_t expert, const ChunkPart& part) {
    owners_[next[part.chunk]++] = {expert, part.begin_bytes, part.end_bytes};
  });
}

// The first chunk that is the expert's alone, so that its neighbours do not trip it.
void ExpertCache::choose_tripwires() {
  for (uint32_t number = 0; number < experts_.size(); ++number) {
    const auto of_expert = parts(experts_[number]);
    if (of_expert.empty()) continue;
    const auto alone = std::find_if(of_expert.begin(), of_expert.end(), [&](const SlabChunk& part) {
      return is_alone(number, part.chunk);
    });
    experts_[number].tripwire = (alone == of_expert.end() ? of_expert.begin() : alone)->chunk;
  }
}

bool ExpertCache::is_alone(uint32_t expert, ChunkId chunk) const {
  const auto all = owners(chunk);
  return std::all_of(all.begin(), all.end(),
                     [&](const ChunkOwner& it) { return it.expert == expert; });
}

std::span<const ExpertCache::SlabChunk> ExpertCache::parts(const CachedExpert& expert) const {
  return std::span(parts_).subspan(expert.begin, expert.chunks());
}

std::span<const ExpertCache::ChunkOwner> ExpertCache::owners(ChunkId chunk) const {
  return std::span(owners_).subspan(owners_begin_[chunk],
                                    owners_begin_[chunk + 1] - owners_begin_[chunk]);
}

// If the offset is not known, the touch is meant for the expert that is in use already. If neither
// is, it is meant for the later one, because an engine reads a slab from its beginning on.
uint32_t ExpertCache::owner_meant(ChunkId chunk, uint32_t offset_bytes) const {
  const auto candidates = owners(chunk);
  uint32_t meant = candidates.back().expert;
  for (const ChunkOwner& owner : candidates) {
    if (owner.begin_bytes <= offset_bytes && offset_bytes < owner.end_bytes) return owner.expert;
    if (is_used_now(experts_[owner.expert])) meant = owner.expert;
  }
  return meant;
}

// ---- Uses ----

ExpertCache::UseCounts ExpertCache::on_touch(ChunkId chunk, uint32_t offset_bytes) {
  const uint32_t number = owner_meant(chunk, offset_bytes);
  CachedExpert& expert = experts_[number];
  UseCounts touch;
  if (expert.layer != layer_) touch.is_new_pass = begin_visit(expert.layer);
  touch.is_use = !is_used_now(expert);
  if (!touch.is_use) {
    // The chunk's read was dropped, or the chunk was evicted too early.
    claim(number);
    if (table_.state(chunk) == ChunkState::absent) ask_for(expert, chunk);
    return touch;
  }
  expert.visit = visit_;
  forecast_.note_use(number);
  rules_.note_use(number);
  activate(number);
  touch.missing_chunks = missing_chunks(expert);
  if (touch.missing_chunks > 0) ask_for(expert, chunk);
  return touch;
}

// The engine came to another layer: the experts that it used before may go, and their next use
// shall be seen. Returns whether a pass has begun.
bool ExpertCache::begin_visit(uint32_t layer) {
  while (first_active_ < used_now_.size()) deactivate_oldest();
  // Where all experts fit, it does not matter which ones are used most.
  if (chunk_count_ > budget_) {
    for (uint32_t expert : used_now_) holds_.push(experts_[expert].tripwire);
  }
  used_now_.clear();
  first_active_ = 0;
  ++visit_;
  const bool is_new_pass = layer_ == none || layer < layer_;
  layer_ = layer;
  forecast_.begin_visit(layer, is_new_pass);
  rules_.begin_visit(layer, is_new_pass);
  return is_new_pass;
}

// Experts in use are safe from eviction, unless they take more than half of the budget.
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
}

void ExpertCache::expect(ChunkId chunk) { claim(owner_meant(chunk, anywhere)); }

// ---- Reads ----

// Queues the absent chunks of an expert that the engine came to at `touched`. Where more experts
// are in use than there is room for (a prompt uses nearly all of them), only the slab that was
// touched is read: the other slabs would have to go again before the engine comes to them.
void ExpertCache::ask_for(const CachedExpert& expert, ChunkId touched) {
  const auto of_expert = parts(expert);
  const auto at = std::find_if(of_expert.begin(), of_expert.end(),
                               [&](const SlabChunk& part) { return part.chunk == touched; });
  const bool is_crowded = first_active_ > 0 || expert.chunks() > budget_;
  for (const SlabChunk& part : of_expert) {
    if (is_crowded && part.slab != at->slab) continue;
    if (table_.state(part.chunk) == ChunkState::absent) reads_[part.slab].push(part.chunk);
  }
}

uint32_t ExpertCache::missing_chunks(const CachedExpert& expert) const {
  const auto of_expert = parts(expert);
  return static_cast<uint32_t>(std::count_if(
      of_expert.begin(), of_expert.end(),
      [&](const SlabChunk& part) { return table_.state(part.chunk) == ChunkState::absent; }));
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
  // The chunk came after the engine had left its expert, whose next use shall be seen.
  const auto all = owners(chunk);
  return std::none_of(all.begin(), all.end(), [&](const ChunkOwner& owner) {
    const CachedExpert& expert = experts_[owner.expert];
    return expert.tripwire == chunk && !is_used_now(expert);
  });
}

ChunkId ExpertCache::next_return() {
  for (;;) {
    for (; !returning_.is_empty(); returning_.pop()) {
      const ChunkId chunk = returning_.front();
      if (keeps(chunk) && table_.state(chunk) == ChunkState::absent) return chunk;
    }
    // Room for up to two experts stays free, as in steady use: the next ones that are missed take
    // it.
    if (claimed_ + 2 * largest_ > budget_) return no_chunk;
    const uint32_t most = find_most_absent();
    if (most == none) return no_chunk;
    claim(most);
    for (const SlabChunk& part : parts(experts_[most])) returning_.push(part.chunk);
  }
}

ChunkId ExpertCache::next_hold() {
  if (holds_.is_empty()) return no_chunk;
  const ChunkId chunk = holds_.front();
  holds_.pop();
  return chunk;
}

// ---- Which experts have to go ----

void ExpertCache::claim(uint32_t number) {
  CachedExpert& expert = experts_[number];
  if (std::exchange(expert.is_claimed, true)) return;
  for (const SlabChunk& part : parts(expert)) claimed_ += claims_[part.chunk]++ == 0;
}

void ExpertCache::unclaim(uint32_t number) {
  CachedExpert& expert = experts_[number];
  expert.is_claimed = false;
  for (const SlabChunk& part : parts(expert)) {
    if (--claims_[part.chunk] > 0) continue;
    --claimed_;
    if (is_in_memory(table_.state(part.chunk))) leaving_.push(part.chunk);
  }
}

bool ExpertCache::can_leave(ChunkId chunk) const {
  return !keeps(chunk) && is_in_memory(table_.state(chunk));
}

bool ExpertCache::is_over_budget() {
  while (!leaving_.is_empty() && !can_leave(leaving_.front())) leaving_.pop();
  return claimed_ > budget_ || !leaving_.is_empty();
}

ChunkId ExpertCache::next_victim() {
  for (;;) {
    while (!leaving_.is_empty()) {
      const ChunkId chunk = leaving_.front();
      leaving_.pop();
      if (can_leave(chunk)) return chunk;
    }
    const uint32_t least = find_least();
    if (least == none) return no_chunk;
    unclaim(least);
  }
}

bool ExpertCache::goes_next(ChunkId chunk) const {
  return !leaving_.is_empty() && leaving_.front() == chunk && can_leave(chunk);
}

void ExpertCache::let_go(ChunkId chunk) {
  WP_ASSERT(goes_next(chunk));
  leaving_.pop();
}

uint32_t ExpertCache::find_least() const {
  uint32_t least = none;
  for (uint32_t number = 0; number < experts_.size(); ++number) {
    const CachedExpert& expert = experts_[number];
    if (!expert.is_claimed || expert.is_active) continue;
    if (least == none || rules_.is_worth_less(number, least)) least = number;
  }
  return least;
}

uint32_t ExpertCache::find_most_absent() const {
  uint32_t most = none;
  for (uint32_t number = 0; number < experts_.size(); ++number) {
    if (experts_[number].is_claimed || !rules_.was_used(number)) continue;
    if (most == none || rules_.is_worth_less(most, number)) most = number;
  }
  return most;
}

}  // namespace weightpager::policy
