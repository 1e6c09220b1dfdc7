#include "pager/policy/pass_follower.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <ranges>
#include <utility>

#include "pager/policy/reordered.h"

namespace weightpager::policy {
namespace {

// How much is read ahead where the engine was found, until it goes on from there.
constexpr uint64_t ahead_bytes_first = 8 * MiB;
// On average: an engine without any order would go on adding visits.
constexpr uint32_t visits_of_each_max = 2;
// This many of the last deliveries are safe, unless the ring is too short for that; more are safe
// where threads work far apart.
constexpr uint32_t safe_deliveries_max = 8;
constexpr uint32_t safe_deliveries_apart = 16;
constexpr uint32_t safe_deliveries_min = 2;
// A matrix that only some passes use joins and is dropped again and again.
constexpr uint32_t joins_watched_max = 4;
// A first pass may sweep a matrix many times.
constexpr uint64_t first_pass_touches_max = 4;

// With chunks that the files do not count among those of every pass, and an earlier run did.
std::vector<ChunkId> with_learned_chunks(std::vector<ChunkId> order,
                                         const std::vector<ChunkId>& learned,
                                         const LayerAbove& above, uint32_t chunks) {
  std::vector<bool> is_there(chunks);
  for (const ChunkId chunk : order) is_there[chunk] = true;
  for (const ChunkId chunk : learned) {
    if (is_there[chunk] || above.owns(chunk)) continue;
    is_there[chunk] = true;
    order.push_back(chunk);
  }
  return order;
}

// A chunk that two tensors share is visited with each of them, where the order has them apart.
std::vector<PassOrder::Visit> shared_visits(const PassOrder& order,
                                            const std::vector<ChunkId>& shared,
                                            uint32_t apart_max) {
  std::vector<PassOrder::Visit> visits;
  const auto visit = [&](ChunkId chunk, uint32_t behind) {
    const uint32_t apart = std::min(order.ahead(chunk, behind), order.behind(chunk, behind));
    if (apart > apart_max) visits.push_back({.behind = behind, .chunk = chunk});
  };
  for (const ChunkId chunk : shared) {
    if (!order.contains(chunk)) continue;
    const uint32_t last = order.position(chunk - 1);
    const uint32_t first = order.position(chunk + 1);
    if (last != PassOrder::nowhere) visit(chunk, last);
    if (first != PassOrder::nowhere) visit(chunk, first == 0 ? order.size() - 1 : first - 1);
  }
  return visits;
}

// Rounded up to one of four steps from each power of two to the next, so that threads that begin
// one after the other divide the window a few times only.
uint32_t in_steps(uint32_t count) {
  const uint32_t step = std::max(std::bit_floor(count) / 4, 1u);
  return (count + step - 1) / step * step;
}

// Whether chunks that follow each other in `now` lie far apart in the order of before, so that pins
// that were even there are not even in `now`.
bool is_scattered(const PassOrder& before, const std::vector<ChunkId>& now) {
  const uint32_t near = before.size() / 16;
  uint32_t far = 0;
  for (size_t at = 1; at < now.size(); ++at) {
    const uint32_t last = before.position(now[at - 1]);
    far += std::min(before.ahead(now[at], last), before.behind(now[at], last)) > near;
  }
  return far > now.size() / 8;
}

}  // namespace

PassFollower::PassFollower(const ChunkTable& table, const Settings& settings,
                           const LayerAbove& above)
    : table_(table),
      settings_(settings),
      above_(above),
      learner_(order_),
      revisits_(order_, settings.chunk_bytes),
      cursor_(table, order_, settings.chunk_bytes) {}

// ---- The order, and what stays ----

void PassFollower::set_order(const ChunkOrder& order, bool has_loaded,
                             const std::vector<ChunkId>& left_out) {
  chunks_ = table_.chunks();
  order_.reset(chunks_);
  learner_.reset(chunks_);
  drops_unseen_ = order.is_load_over;
  if (has_loaded) {
    is_first_pass_ = true;
    first_pass_touches_ = 0;
  }
  if (drops_unseen_) learner_.watch_all();
  revisits_.reset(chunks_);
  ahead_.reset(chunks_);
  awaited_.reset(chunks_);
  joins_watched_ = 0;
  pins_.reset(order, chunks_);
  is_order_learned_ = !order.access_profile.is_empty();
  shared_ = order.shared;
  const std::vector<ChunkId>& learned = order.access_profile.order;
  std::vector<ChunkId> all = with_learned_chunks(order.cyclic, learned, above_, chunks_);
  left_out_.begin(std::move(all), left_out, chunks_);
  std::vector<ChunkId> first = left_out_.others();
  install_order(is_order_learned_ ? reordered(first, learned) : std::move(first));
}

void PassFollower::install_order(std::vector<ChunkId> order) {
  order_.install(std::move(order));
  const auto apart_max = static_cast<uint32_t>(threads_apart_bytes / settings_.chunk_bytes);
  order_.insert(shared_visits(order_, shared_, apart_max));
  order_change_ = OrderChange::replaced;
  use_order();
}

// A chunk that two passes left untouched is not part of the pass: it loses its pin and its visits.
// So does a chunk lose a visit that two passes did not make. What the user wants to stay loses
// none. And visits that were found missing are added. Returns false if there is nothing to edit.
bool PassFollower::edit_order() {
  const auto is_gone = [&](uint32_t at) {
    if (pins_.is_kept(order_[at])) return false;
    return learner_.is_unused(order_[at]) || order_.is_idle(at);
  };
  auto missing = revisits_.take_found();
  const auto positions = std::views::iota(0u, order_.size());
  if (missing.empty() && std::ranges::none_of(positions, is_gone)) return false;
  if (!missing.empty() && order_.size() < visits_of_each_max * order_.chunk_count()) {
    // Where exactly the engine uses what joins the order, another pass has to show.
    const auto joins = [&](const PassOrder::Visit& visit) { return !order_.contains(visit.chunk); };
    const auto joining = static_cast<uint64_t>(std::ranges::count_if(missing, joins));
    const bool is_matrix = joining * settings_.chunk_bytes >= threads_apart_bytes;
    if (is_matrix && joins_watched_++ < joins_watched_max) learner_.begin_anew();
    order_.insert(std::move(missing));
    is_order_learned_ = true;
    ++statistics_.profiles_learned;
  }
  const uint32_t visits = order_.size();
  const std::vector<ChunkId> before(order_.chunks().begin(), order_.chunks().end());
  order_.erase_if(is_gone);
  for (const ChunkId chunk : before) {
    if (!order_.contains(chunk)) left_out_.drop(chunk);
  }
  if (is_order_learned_ && order_.size() < visits) ++statistics_.profiles_learned;
  if (order_change_ == OrderChange::none) order_change_ = OrderChange::edited;
  use_order();
  return true;
}

void PassFollower::use_order() {
  cursor_.forget();
  ahead_.forget();
  revisits_.take_found();  // these are places of another order
  divide();
}

void PassFollower::set_pace(std::vector<float> pace) {
  order_.set_pace(std::move(pace));
  divide();
}

WindowNeeds PassFollower::needs() const {
  return {.chunk_bytes = settings_.chunk_bytes,
          .window = table_.resident_max(),
          .cyclic = order_.chunk_count(),
          .sparse = chunks_ - order_.chunk_count() - above_.chunks,
          .above = above_.chunks,
          .above_largest = above_.chunks_of_largest,
          .at_once = in_steps(awaited_.most()),
          .linger = learner_.linger_wanted()};
}

void PassFollower::divide() {
  shares_ = divide_window(needs());
  if (!shares_.is_streaming) is_first_pass_ = false;
  if (is_first_pass_) {
    const uint32_t kept = std::min(shares_.pinned, pins_.kept_chunks_of(order_));
    shares_.sparse += shares_.pinned - kept;
    shares_.pinned = kept;
  }
  cursor_.set_ring(shares_.ring, shares_.is_streaming);
  learner_.set_ring(shares_.ring);
  held_.choose(order_, shares_.ring, is_first_pass_ ? 0 : shares_.pinned / 2);
  shares_.held = held_.places();
  shares_.pinned -= shares_.held;
  pins_.choose(order_, held_, shares_.pinned, shares_.ring);
  is_rearranged_ = true;
}

bool PassFollower::is_needed(ChunkId chunk) const {
  if (!cursor_.is_set() || !order_.contains(chunk)) return false;
  if (cursor_.is_around(chunk)) return true;
  const uint32_t back = order_.behind(chunk, cursor_.position());
  return held_.contains((cursor_.position() + order_.size() - back) % order_.size());
}

bool PassFollower::is_expected(ChunkId chunk) const {
  if (!cursor_.is_set() || !learner_.has_seen(chunk)) return false;
  const uint32_t visit =
      (cursor_.position() + order_.ahead(chunk, cursor_.position())) % order_.size();
  return !order_.is_doubtful(visit);
}

// Where no order tells what threads need next, all of them that wait at once need their chunks, and
// each needs two, at whose border it works.
uint64_t PassFollower::safe_deliveries(ChunkId chunk) const {
  const bool are_apart = learner_.linger_wanted() > 0;
  const uint32_t in_order = std::min(are_apart ? safe_deliveries_apart : safe_deliveries_max,
                                     std::max(shares_.ring / 4, safe_deliveries_min));
  if (order_.contains(chunk) && !learner_.is_learning()) return in_order;
  return std::max(in_order, std::min(2 * awaited_.most(), shares_.ring + shares_.sparse));
}

AccessProfile PassFollower::access_profile() const {
  if (!is_order_learned_ && order_.pace().empty()) return {};
  AccessProfile access_profile;
  access_profile.order.assign(order_.chunks().begin(), order_.chunks().end());
  access_profile.computed_ns.assign(order_.pace().begin(), order_.pace().end());
  access_profile.computed_ns.resize(order_.size(), 0);
  return access_profile;
}

PassFollower::OrderChange PassFollower::take_order_change() {
  return std::exchange(order_change_, OrderChange::none);
}

// ---- Where the engine is ----

bool PassFollower::note_touch(ChunkId chunk) {
  is_rearranged_ = false;
  learner_.note_touch(chunk);
  note_awaited(chunk);
  order_.contains(chunk) ? note_ordered(chunk) : note_unordered(chunk);
  if (is_rearranged_) cursor_.skip_consumed();
  return is_rearranged_;
}

// More threads wait at once than before: the ring may have to be longer.
void PassFollower::note_awaited(ChunkId chunk) {
  const ChunkState state = table_.state(chunk);
  if (state == ChunkState::reading) ahead_.note_wait(chunk);
  const bool is_awaited = state == ChunkState::absent || state == ChunkState::reading;
  if (!is_awaited || above_.owns(chunk)) return;
  const uint32_t before = awaited_.most();
  awaited_.note_touch(chunk);
  if (awaited_.most() == before) return;
  if (divide_window(needs()).ring > shares_.ring) divide();
  cursor_.set_threads(awaited_.most());
}

void PassFollower::note_unordered(ChunkId chunk) {
  const bool is_absent = table_.state(chunk) == ChunkState::absent;
  if (is_absent && cursor_.is_set() && !above_.owns(chunk)) note_revisit(chunk);
  const LeftOut::Joining joining = left_out_.note_touch(chunk, is_absent);
  if (joining == LeftOut::Joining::none) return;
  const bool is_all = joining == LeftOut::Joining::all;
  if (is_all) left_out_.bring_back();
  for (const ChunkId back : left_out_.came_back()) learner_.note_joining(back);
  install_order(left_out_.join(order_));
  if (is_all) {
    // Another pass has to show what is used.
    learner_.reset(chunks_);
    learner_.watch_all();
    drops_unseen_ = true;
  }
  if (order_.contains(chunk)) jump_to(cursor_.place_of(chunk));
}

void PassFollower::note_ordered(ChunkId chunk) {
  follow(chunk);
  reconsider();
  const bool has_seen_pass = learner_.note_order(chunk);
  // An engine that uses little of what it has loaded makes no pass that is seen as one.
  const bool is_long = ++first_pass_touches_ > first_pass_touches_max * order_.size();
  if ((has_seen_pass || is_long) && std::exchange(is_first_pass_, false)) divide();
  if (has_seen_pass) {
    // How far behind its place a first touch may come without a contradiction. Of an order that a
    // whole run has learned the differences are the threads' chance, as long as the ring holds
    // them.
    const auto usual = static_cast<uint32_t>(threads_apart_bytes / settings_.chunk_bytes);
    const bool is_from_profile = is_order_learned_ && statistics_.order_corrections == 0;
    const uint32_t apart_max = is_from_profile ? std::max(usual, shares_.ring) : usual;
    if (learner_.is_contradicted(apart_max)) correct_order();
    if (std::exchange(drops_unseen_, false)) drop_unseen();
  }
  if (!cursor_.is_set() && order_.contains(chunk)) jump_to(cursor_.place_of(chunk));
}

// The first pass after a load is over: what it left untouched is not part of a pass.
void PassFollower::drop_unseen() {
  learner_.drop_unseen();
  const auto back = left_out_.came_back();
  for (const ChunkId chunk : back) learner_.note_touch(chunk);
  if (!back.empty()) install_order(left_out_.join(order_));
  edit_order();
}

void PassFollower::follow(ChunkId chunk) {
  const bool is_absent = table_.state(chunk) == ChunkState::absent;
  const Cursor::Sighting seen = cursor_.see(chunk, is_absent);
  if (!seen.is_stray && cursor_.is_set()) {
    order_.note_made(order_.nearest_visit(chunk, cursor_.position()));
  }
  // A visit that the order lacks explains a missing chunk better than a wrong order does, and the
  // next pass shows whether it is one.
  const bool may_lack_visit = seen.is_stray && is_absent && !learner_.is_learning() &&
                              note_revisit(chunk) != Revisits::Kind::elsewhere;
  if (seen.is_stray && !may_lack_visit) learner_.note_stray();
  // Threads that are apart are no sign of another order.
  const bool has_jumped = seen.move == Cursor::Move::jump && cursor_.is_set();
  if (has_jumped && seen.is_stray) learner_.note_jump();
  if (seen.is_early && !learner_.is_learning()) note_revisit(chunk);
  const uint32_t widest = widest_ring(table_.resident_max(), settings_.chunk_bytes);
  const bool has_ring = seen.linger_wanted > 0 && 2 * seen.linger_wanted <= widest;
  if (has_ring) learner_.note_cramped(seen.linger_wanted);
  if (seen.move == Cursor::Move::advance) advance_to(seen.place);
  if (seen.move == Cursor::Move::jump) jump_to(seen.place);
}

Revisits::Kind PassFollower::note_revisit(ChunkId chunk) {
  return revisits_.note(chunk, cursor_.position(), shares_.ring);
}

// The engine follows the order, so reading ahead pays: further each time, until slots are the
// limit.
void PassFollower::advance_to(uint64_t place) {
  const uint64_t passes = cursor_.passes_until(place);
  leave_behind(place);
  cursor_.advance(place);
  ahead_.reach_further(table_.resident_max());
  if (passes > 0) end_pass(passes);
}

void PassFollower::jump_to(uint64_t place) {
  const uint64_t passes = cursor_.passes_until(place);
  if (cursor_.is_set()) leave_behind(place);
  ahead_.forget();
  ahead_.set_max(static_cast<uint32_t>(ahead_bytes_first / settings_.chunk_bytes));
  cursor_.jump(place);
  is_rearranged_ = true;
  if (passes > 0) end_pass(passes);
}

void PassFollower::leave_behind(uint64_t place) {
  revisits_.go_on(place - std::min(place, cursor_.place()));
  for (uint64_t behind = cursor_.place(); behind < place; ++behind) {
    const ChunkId chunk = order_.chunk_at(behind);
    const ChunkState state = table_.state(chunk);
    if (state != ChunkState::mapped) order_.note_not_made(behind % order_.size());
    if (!learner_.has_seen(chunk) && state != ChunkState::mapped) learner_.note_untouched(chunk);
    const bool was_in_time = ahead_.note_passed(chunk, state == ChunkState::reading);
    statistics_.prefetch_hidden += was_in_time;
  }
}

void PassFollower::end_pass(uint64_t passes) {
  // Where there are experts, they show passes better: all cyclic chunks may be pinned, and then
  // none of them shows a touch.
  if (!above_.counts_passes) statistics_.passes += passes;
  learner_.end_pass();
  left_out_.end_pass();
  awaited_.end_pass();
  cursor_.set_threads(awaited_.most());
  const uint32_t ring = divide_window(needs()).ring;
  if (ring + ring / 4 < shares_.ring) divide();  // pins that move by little are not worth reads
  if (learner_.is_learning()) return;
  const ChunkId here = order_.chunk_at(cursor_.place());
  if (edit_order() && order_.contains(here)) jump_to(cursor_.place_of(here));
}

bool PassFollower::begin_pass() {
  if (cursor_.is_set() || order_.size() == 0) return false;
  jump_to(cursor_.place_of(order_[0]));
  ahead_.set_max(table_.resident_max());
  return true;
}

// ---- Where the order, or the ring's length, turns out to be wrong ----

void PassFollower::reconsider() {
  switch (learner_.doubt()) {
    case OrderLearner::Doubt::none:
      return;
    case OrderLearner::Doubt::ring:
      return divide();  // with a longer ring
    case OrderLearner::Doubt::order:
      return learner_.begin_anew();
  }
}

void PassFollower::correct_order() {
  learner_.note_correction();
  is_order_learned_ = true;
  ++statistics_.order_corrections;
  ++statistics_.profiles_learned;
  std::vector<ChunkId> order = reordered(order_.first_visits(), learner_.seen());
  if (is_scattered(order_, order)) pins_.forget_turns();
  install_order(std::move(order));
}

// ---- What is read and evicted ----

ChunkId PassFollower::next_ahead() {
  if (!cursor_.is_set() || ahead_.is_full()) return window::no_chunk;
  // In an order that is only assumed, this would take the room of what is in use.
  if (is_first_pass_ && ahead_.count() >= settings_.reads_max) return window::no_chunk;
  return cursor_.next_absent();
}

void PassFollower::note_read_ahead(ChunkId chunk) {
  cursor_.note_asked();
  ahead_.note_read(chunk);
}

void PassFollower::note_evicted(ChunkId chunk) {
  statistics_.prefetch_unused += ahead_.note_evicted(chunk);
  cursor_.note_evicted(chunk);
}

}  // namespace weightpager::policy
