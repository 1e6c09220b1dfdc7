#include "pager/policy/expert_policy.h"

#include <algorithm>
#include <utility>

namespace weightpager::policy {
namespace {

// About one slab of experts is in flight at once, within these bounds; an expert mostly has three
// slabs. The lower bound is at least any disk's bandwidth times its latency, so that no bandwidth
// is lost.
constexpr uint32_t slabs_of_expert = 3;
constexpr uint64_t expert_bytes_in_flight_min = MiB;
constexpr uint64_t expert_bytes_in_flight_max = 4 * MiB;
// The same for experts that come back before they are used. It is little, because an engine that
// misses another expert waits for these reads first.
constexpr uint64_t returning_bytes_in_flight = MiB / 2;

Action read_for_expert(ChunkId chunk) { return {.kind = Action::Kind::read, .chunk = chunk}; }

}  // namespace

// ---- Events ----

void ExpertPolicy::set_order(const ChunkOrder& order) {
  experts_.set_experts(order.experts);
  LayerAbove above{.chunks = experts_.chunks(),
                   .chunks_of_largest = experts_.chunks_of_largest(),
                   .counts_passes = !experts_.is_empty(),
                   .keeps = [this](ChunkId chunk) { return experts_.keeps(chunk); }};
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    above.is_owned.push_back(experts_.owns(chunk));
  }
  stream_.set_order(order, std::move(above));
  share_window();
}

void ExpertPolicy::on_resized() {
  stream_.on_resized();
  share_window();
}

void ExpertPolicy::set_pace(std::vector<float> pace) {
  stream_.set_pace(std::move(pace));
  share_window();
}

void ExpertPolicy::share_window_if_rearranged() {
  if (stream_.arrangements() != arrangements_) share_window();
}

// Unless all experts fit, some of their share stays free for the next one that is missing. Its
// reads start without waiting for evictions, and chunks that leave together leave slots that lie
// side by side.
void ExpertPolicy::share_window() {
  arrangements_ = stream_.arrangements();
  const uint32_t share = stream_.follower().shares().above;
  const bool all_fit = share == experts_.chunks();
  spare_ = all_fit ? 0 : std::min(experts_.chunks_of_largest(), share / 16);
  experts_.set_budget(share - spare_);
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    if (table_.is_resident(chunk) && experts_.owns(chunk) && !experts_.keeps(chunk)) {
      experts_.release(chunk);
    }
  }
}

void ExpertPolicy::on_touch(ChunkId chunk, uint32_t offset_bytes) {
  stream_.on_touch(chunk, offset_bytes);
  share_window_if_rearranged();
  if (experts_.owns(chunk)) touch_expert(chunk, offset_bytes);
}

void ExpertPolicy::touch_expert(ChunkId chunk, uint32_t offset_bytes) {
  const ExpertCache::UseCounts touch = experts_.on_touch(chunk, offset_bytes);
  PolicyStatistics& statistics = stream_.counters();
  statistics.expert_uses += touch.is_use;
  statistics.expert_misses += touch.missing_chunks > 0;
  statistics.expert_chunks_missing += touch.missing_chunks;
  statistics.passes += touch.is_new_pass;
}

bool ExpertPolicy::on_ready(ChunkId chunk) {
  const bool is_shown = stream_.on_ready(chunk);
  return experts_.owns(chunk) ? experts_.on_ready(chunk) : is_shown;
}

void ExpertPolicy::will_need(std::span<const ChunkId> chunks) {
  stream_.will_need(chunks);
  share_window_if_rearranged();
  if (stream_.announces_pass(chunks)) return;
  for (ChunkId chunk : chunks) {
    if (experts_.owns(chunk)) experts_.expect(chunk);
  }
}

// ---- What is to be done next ----

Action ExpertPolicy::next() {
  if (experts_.is_empty()) return stream_.next();
  if (Action it = grant(stream_.demand()); it.kind != Action::Kind::none) return it;
  if (Action it = grant(stream_.shrink()); it.kind != Action::Kind::none) return it;
  if (Action it = rest_of_experts(); it.kind != Action::Kind::none) return it;
  const bool lacks_nothing = experts_.next_read() == window::no_chunk;
  if (Action it = spare_room(lacks_nothing); it.kind != Action::Kind::none) return it;
  if (Action it = stream_.show_unseen(); it.kind != Action::Kind::none) return it;
  if (Action it = hide(); it.kind != Action::Kind::none) return it;
  // Reading ahead waits until experts in use lack nothing. The other way round, experts would never
  // have their turn.
  if (!lacks_nothing) return {};
  if (Action it = grant(stream_.advised()); it.kind != Action::Kind::none) return it;
  if (Action it = grant(stream_.prefetch()); it.kind != Action::Kind::none) return it;
  if (stream_.lacks_room_for_growth()) {
    if (Action it = growth_victim(true); it.kind != Action::Kind::none) return it;
    if (Action it = stream_.useless_victim(true); it.kind != Action::Kind::none) return it;
  }
  return returning();
}

Action ExpertPolicy::grant(const PinStream::Wish& wish) {
  using Kind = PinStream::Wish::Kind;
  if (wish.kind == Kind::nothing) return {};
  return wish.kind == Kind::room ? make_room(wish.is_demand) : wish.read();
}

// Reads what an expert in use still lacks: the engine will come to it within microseconds.
Action ExpertPolicy::rest_of_experts() {
  const ChunkId chunk = experts_.next_read();
  if (chunk == window::no_chunk) return {};
  const uint32_t slab_chunks =
      (experts_.chunks_of_largest() + slabs_of_expert - 1) / slabs_of_expert;
  const uint32_t in_flight_max =
      std::max(4u, std::clamp(slab_chunks, chunks_in(expert_bytes_in_flight_min),
                              chunks_in(expert_bytes_in_flight_max)));
  const uint32_t reads_max = std::min(settings_.reads_max, in_flight_max);
  if (table_.reading() >= reads_max) return {};
  if (table_.room() > 0) return read_for_expert(chunk);
  if (table_.lacks_slot()) return {};
  if (Action it = make_room(false); it.kind != Action::Kind::none) return it;
  if (Action it = expert_victim(); it.kind != Action::Kind::none) return it;
  experts_.drop_reads();
  return {};
}

// Makes the spare room once the disk has been asked for all that the last expert lacked.
Action ExpertPolicy::spare_room(bool lacks_nothing) {
  const bool is_wanted = lacks_nothing && table_.room() < spare_ && experts_.is_over_budget();
  return is_wanted ? expert_victim() : Action{};
}

// Hides the chunks that shall show their expert's next use.
Action ExpertPolicy::hide() {
  for (;;) {
    const ChunkId chunk = experts_.next_hold();
    if (chunk == window::no_chunk) return {};
    if (stream_.victims().can_be_hidden(chunk)) {
      return {.kind = Action::Kind::hide, .chunk = chunk, .is_used_whole = true};
    }
  }
}

// Reads experts back into room that nothing else wants, after the window has grown. Room for the
// next experts that are missed stays free, or they would push out again what has just been read.
Action ExpertPolicy::returning() {
  const uint32_t reads_max = std::max(chunks_in(returning_bytes_in_flight), 1u);
  const uint32_t reserve = spare_ + 2 * experts_.chunks_of_largest();
  if (table_.reading() >= reads_max || table_.room() <= reserve) return {};
  const ChunkId chunk = experts_.next_return();
  return chunk == window::no_chunk ? Action{} : read_for_expert(chunk);
}

// ---- Making room ----

// Experts beyond their share go first, experts within it before what is streamed.
Action ExpertPolicy::make_room(bool for_demand) {
  if (table_.lacks_slot()) return stream_.free_a_slot(for_demand);
  if (experts_.is_over_budget()) {
    if (Action it = expert_victim(); it.kind != Action::Kind::none) return it;
  }
  if (stream_.is_growing()) {
    const Action it = growth_victim(for_demand);
    if (it.kind != Action::Kind::none || !for_demand) return it;
  }
  if (Action it = stream_.useless_victim(for_demand); it.kind != Action::Kind::none) return it;
  if (!for_demand) return {};
  if (Action it = expert_victim(); it.kind != Action::Kind::none) return it;
  return stream_.useful_victim();
}

// While the engine fills memory, experts can be read again, too.
Action ExpertPolicy::growth_victim(bool for_demand) {
  const Action it = stream_.file_victim(for_demand);
  return it.kind != Action::Kind::none || !for_demand ? it : expert_victim();
}

// Chunks that cannot go now are left to the clock.
Action ExpertPolicy::expert_victim() {
  for (;;) {
    const ChunkId chunk = experts_.next_victim();
    if (chunk == window::no_chunk) return {};
    if (!stream_.victims().can_go(chunk)) {
      stream_.victims().add_to_clock(chunk);
      continue;
    }
    // Neighbours whose turn it is go with it: they were read together, and leaving together costs
    // no more than leaving alone.
    Action it{.kind = Action::Kind::evict, .chunk = chunk};
    for (ChunkId next = chunk + 1; it.count < settings_.evictions_max; ++next, ++it.count) {
      if (!experts_.goes_next(next) || !stream_.victims().can_go(next)) break;
      experts_.let_go(next);
    }
    return it;
  }
}

}  // namespace weightpager::policy
