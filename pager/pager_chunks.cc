// Chunks between their slots and the engine's sight: shown, taken out again, evicted.
//
// A chunk that one region shows is moved there with its memory, or copied; one that several show,
// or none, keeps its slot. Where the kernel still holds a page, nothing has happened, and it is
// tried again.
#include <algorithm>
#include <cerrno>

#include "pager/pager.h"
#include "pager/telemetry/probes.h"

namespace weightpager {

namespace probes = telemetry::probes;
using fault::Outcome;
using policy::ChunkId;
using telemetry::add;
using telemetry::EventKind;
using telemetry::Histogram;
using window::ChunkState;
using window::Region;
using window::Run;

namespace {

// Of a chunk's pages as many more may be shown twice, where regions meet within a page.
constexpr uint64_t border_parts = 16;

}  // namespace

// The one region that shows the chunk, if its slot's memory itself goes there; else nullptr.
Region* Pager::moves_to(ChunkId chunk) const {
  Region* only = nullptr;
  bool is_moved = !shares_memory();
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    is_moved = is_moved && only == nullptr && mapper_->moves_into(region, index);
    only = &region;
  });
  return is_moved ? only : nullptr;
}

// Shows the chunk in one region, and wakes who waits for it there.
Outcome Pager::place(Region& region, uint32_t index, std::byte* bytes) {
  Region::Notes& notes = region.notes(index);
  if (notes.is_placed) return Outcome::done;
  const Outcome outcome = mapper_->show(region, {index}, bytes);
  notes.is_placed = outcome == Outcome::done;
  if (outcome == Outcome::done || region.space().is_own()) return outcome;
  // Whatever is wrong with a guest is no other's business.
  region.space().line().hang_up();
  return Outcome::done;
}

// A view has lost pages of a chunk that it shows.
void Pager::show_again(const Region& region, uint32_t index) {
  const Outcome outcome = window::show_live_pages(region, index);
  if (outcome == Outcome::done) return;
  if (!region.space().is_own()) return region.space().line().hang_up();
  // Out of memory for page tables, at worst: the toucher tries again.
  wake_live_pages(region, index);
}

// What one read has brought: in one step if that is possible.
void Pager::map(const Run& run) {
  if (run.count > 1 && show_at_once(run)) return;
  for (uint32_t i = 0; i < run.count; ++i) map(run.first + i);
}

// ready → mapped of all, or false, and nothing has happened.
bool Pager::show_at_once(const Run& run) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  Region* const home = moves_to(run.first);
  if (home == nullptr) return false;
  const uint32_t index = owner(run.first).index_in(*home, run.first);
  for (uint32_t i = 0; i < run.count; ++i) {
    if (moves_to(run.first + i) != home || home->notes(index + i).is_placed) return false;
  }
  if (mapper_->show(*home, {index, run.count}, memory_of(run.first)) != Outcome::done) return false;
  probes::map(run.first, run.count);
  note(EventKind::map, run.first, run.count);
  for (uint32_t i = 0; i < run.count; ++i) {
    home->notes(index + i).is_placed = true;
    table_.map(run.first + i, true);
    stop_waiting(run.first + i);
  }
  account_show(run.count, began_ns);
  return true;
}

// ready → mapped. Wakes who waits for the chunk.
void Pager::map(ChunkId chunk) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  Outcome outcome = Outcome::done;
  bool keeps_slot = true;
  if (tripped_in(chunk) != nullptr) {
    if (!take_tripwire_back(chunk)) outcome = Outcome::busy;
  } else {
    keeps_slot = shares_memory() ? show_shared(chunk, outcome) : show_own(chunk, outcome);
  }
  switch (outcome) {
    case Outcome::done:
      probes::map(chunk, 1);
      note(EventKind::map, chunk);
      if (table_.state(chunk) == ChunkState::ready) table_.map(chunk, keeps_slot);
      stop_waiting(chunk);
      if (!keeps_slot) trim_slots();
      return account_show(1, began_ns);
    case Outcome::busy:
      // Nobody waits: it stays ready, a tripwire. Somebody waits: again in a moment.
      if (waiting_[chunk].is_waited_for) held_.push_back(chunk);
      return;
    case Outcome::exists:
      return fail_chunk(chunk, "the address range of the model was written to by somebody else",
                        EEXIST);
    case Outcome::gone:
    case Outcome::failed:
      return fail_chunk(chunk, "the kernel refused to map it", errno);
  }
}

// In edges, and as a whole in one region, but no more in all than the window counts: first where
// somebody waits, then wherever there is room. Regions side by side show a page of their border
// both; of those that lie one over the other some go without, and get the chunk when it is touched
// there. Returns whether the chunk keeps its slot.
bool Pager::show_own(ChunkId chunk, Outcome& outcome) {
  const ServedFile& served = owner(chunk);
  Region* const home = served.home_of(chunk);
  uint64_t pages_left = chunk_bytes_ / os_page_bytes;
  pages_left += pages_left / border_parts + 1;
  bool is_any_shown = false;
  bool moves_home = false;
  for (const bool is_waited_for : {true, false}) {
    served.for_each_view(chunk, [&](Region& region, uint32_t index) {
      const window::PageSet* const edge = region.edge(index);
      const bool is_meant = region.notes(index).is_waited_for == is_waited_for &&
                            (edge != nullptr || &region == home);
      const uint64_t pages = edge == nullptr ? region.pages_per_chunk() : edge->count();
      if (outcome != Outcome::done || !is_meant || (is_any_shown && pages > pages_left)) return;
      is_any_shown = true;
      pages_left -= std::min(pages_left, pages);
      // The memory itself goes last, after what is copied from it.
      moves_home = moves_home || mapper_->moves_into(region, index);
      if (!mapper_->moves_into(region, index)) outcome = place(region, index, memory_of(chunk));
    });
  }
  if (!moves_home || outcome != Outcome::done) return false;
  outcome = place(*home, served.index_in(*home, chunk), memory_of(chunk));
  return true;
}

// Wherever somebody waits for it; if nobody does, where the file was used last.
bool Pager::show_shared(ChunkId chunk, Outcome& outcome) {
  const ServedFile& served = owner(chunk);
  outcome = served.memory->show_chunk(served.offset_of(chunk), table_.slot(chunk));
  const bool is_waited_for = waiting_[chunk].is_waited_for && !served.memory->shows_chunks();
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    const bool is_wanted = is_waited_for
                               ? region.notes(index).is_waited_for
                               : &region == served.favoured || served.memory->shows_chunks();
    if (outcome == Outcome::done && is_wanted) outcome = place(region, index, memory_of(chunk));
  });
  return true;
}

// Takes the chunk out of every region. If it has a slot, its bytes are then there. False: not
// possible now, and the chunk is mapped as before (of shared memory, perhaps in fewer regions).
bool Pager::take_out(ChunkId chunk) {
  const ServedFile& served = owner(chunk);
  std::byte* const bytes = table_.slot(chunk) == window::no_slot ? nullptr : memory_of(chunk);
  bool is_out = true;
  // What was moved first: that is what the kernel may refuse.
  for (const bool is_moved : {true, false}) {
    served.for_each_view(chunk, [&](Region& region, uint32_t index) {
      Region::Notes& notes = region.notes(index);
      if (!is_out || !notes.is_placed || mapper_->moves_into(region, index) != is_moved) return;
      is_out = mapper_->hide(region, {index}, bytes) == Outcome::done;
      notes.is_placed = !is_out;
    });
  }
  if (is_out && shares_memory()) served.memory->hide_chunks(served.offset_of(chunk), 1);
  return is_out;
}

// ready or mapped → absent.
void Pager::release(ChunkId chunk) {
  give_back_memory(chunk);
  table_.release(chunk);
}

// Of shared memory the chunk's pages go, out of every region.
void Pager::give_back_memory(ChunkId chunk) {
  if (!shares_memory()) return;
  const ServedFile& served = owner(chunk);
  served.memory->give_back_chunk(served.offset_of(chunk));
  served.for_each_view(
      chunk, [](Region& region, uint32_t index) { region.notes(index).is_placed = false; });
}

void Pager::hold(ChunkId chunk, bool is_used_whole) {
  if (!take_out_of_sight(chunk, is_used_whole)) return policy_->on_refused(chunk);
  note(EventKind::hold, chunk);
}

// Somebody waits for a mapped chunk in another region than the one that it lies in. One that was
// copied there is copied on from there; what only lies in edges has to be read anew.
void Pager::move_to_waiter(ChunkId chunk) {
  ServedFile& served = owner(chunk);
  Region* const target = served.home_of(chunk);
  Region* source = nullptr;
  uint32_t source_index = 0;
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    // From where the engine may not look, copying does not work either.
    const Region::Notes& notes = region.notes(index);
    const bool is_copied_whole =
        notes.is_placed && region.edge(index) == nullptr && !notes.is_divided;
    if (!is_copied_whole || mapper_->moves_into(region, index)) return;
    source = &region;
    source_index = index;
  });
  const uint32_t index = target == nullptr ? 0 : served.index_in(*target, chunk);
  // Into a region that chunks are moved to they need a slot.
  const bool can_copy = source != nullptr && target != nullptr && target != source &&
                        !mapper_->moves_into(*target, index);
  if (can_copy && table_.slot(chunk) == window::no_slot) {
    const std::byte* const bytes = source->chunk_address(source_index);
    if (window::copy_live_pages(*target, index, bytes) != Outcome::done) {
      return held_.push_back(chunk);
    }
    target->notes(index).is_placed = true;
    window::drop_live_pages(*source, source_index);
    source->notes(source_index).is_placed = false;
    return stop_waiting(chunk);
  }
  if (!take_out(chunk)) return held_.push_back(chunk);
  if (table_.slot(chunk) != window::no_slot) {
    table_.hold(chunk);
    return map(chunk);
  }
  release(chunk);
  policy_->on_touch(chunk, policy::anywhere);
}

void Pager::evict(const Run& run) {
  for (uint32_t i = 0; i < run.count; ++i) take_tripwire_back(run.first + i);
  for (uint32_t done = 0; done < run.count;) {
    const uint64_t began_ns = telemetry::monotonic_ns();
    const bool is_shown = table_.state(run.first + done) == ChunkState::mapped;
    const uint32_t count = hide_at_once({run.first + done, run.count - done});
    for (uint32_t i = 0; i < count; ++i) evict(run.first + done + i);
    if (is_shown) account_take_out(count, began_ns);
    done += count;
  }
}

// Takes those out of their region, from the first on, for which one step will do, and says how many
// these are; at least one, which may still be there.
uint32_t Pager::hide_at_once(const Run& run) {
  if (shares_memory()) {
    uint32_t count = 0;
    while (count < run.count && !waiting_[run.first + count].is_waited_for) ++count;
    if (count < 2) return 1;
    owner(run.first).memory->hide_chunks(owner(run.first).offset_of(run.first), count);
    return count;
  }
  Region* const home = moves_to(run.first);
  if (home == nullptr) return 1;
  const uint32_t index = owner(run.first).index_in(*home, run.first);
  const uint32_t count = window::count_together(table_, run, [&](ChunkId chunk) {
    return table_.state(chunk) == ChunkState::mapped && !waiting_[chunk].is_waited_for &&
           moves_to(chunk) == home;
  });
  // The kernel may hold a page of one of them: then each goes, or stays, by itself.
  if (count == 1 || mapper_->hide(*home, {index, count}, memory_of(run.first)) != Outcome::done) {
    return 1;
  }
  for (uint32_t i = 0; i < count; ++i) home->notes(index + i).is_placed = false;
  return count;
}

void Pager::evict(ChunkId chunk) {
  const bool is_free = !waiting_[chunk].is_waited_for && (shares_memory() || take_out(chunk));
  if (!is_free) return policy_->on_refused(chunk);
  release(chunk);
  probes::evict(chunk);
  add(telemetry_.evictions, 1);
  note(EventKind::evict, chunk);
  trim_slots();
  if (table_.free_slots() == 0) ask_for_slots();
}

// The engine took the chunk's last pages away. Who waits for it in another region needs it anew.
void Pager::release_if_nowhere(ChunkId chunk) {
  if (table_.state(chunk) != ChunkState::mapped || owner(chunk).is_placed(chunk)) return;
  if (owner(chunk).is_kept) return table_.hold(chunk);
  release(chunk);
  if (waiting_[chunk].is_waited_for) policy_->on_touch(chunk, policy::anywhere);
}

// Who waits where the chunk now lies was woken by that; who waits for it in another region touches
// it again, and is then told apart from who just had it.
void Pager::stop_waiting(ChunkId chunk) {
  if (!waiting_[chunk].is_waited_for) return;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const bool must_retry = notes.is_waited_for && !notes.is_placed;
    notes.is_waited_for = false;
    if (must_retry) wake_live_pages(region, index);
  });
  waiting_[chunk].is_waited_for = false;
  account_wait(chunk);
}

// The wait is over. Of the time with threads waiting, what has passed since another chunk's wait
// ended goes to this chunk's layer.
void Pager::account_wait(ChunkId chunk) {
  const uint64_t now_ns = telemetry::monotonic_ns();
  const Waiting& waited = waiting_[chunk];
  Histogram& histogram = waited.touched_in == ChunkState::absent    ? telemetry_.wait_demand_ns
                         : waited.touched_in == ChunkState::reading ? telemetry_.wait_late_ns
                                                                    : telemetry_.wait_tripwire_ns;
  histogram.add(now_ns - waited.touched_ns);
  const ServedFile& served = owner(chunk);
  served.layers->add_stall(served.layers->layer_of(chunk - served.first_chunk),
                           now_ns - stall_shared_out_ns_);
  stall_shared_out_ns_ = now_ns;
  if (record_ != nullptr) record_->mark_served(chunk, now_ns);
  if (events_ != nullptr) {
    events_->add({.time_ns = now_ns, .chunk = chunk, .kind = EventKind::served});
  }
  if (--waiting_chunks_ == 0) add(telemetry_.stall_ns, now_ns - stalled_since_ns_);
  probes::served(chunk, waiting_chunks_);
}

void Pager::account_show(uint32_t chunks, uint64_t began_ns) {
  add(telemetry_.shows, 1);
  add(telemetry_.shown_chunks, chunks);
  add(telemetry_.show_ns, telemetry::monotonic_ns() - began_ns);
}

void Pager::account_take_out(uint32_t chunks, uint64_t began_ns) {
  add(telemetry_.take_outs, 1);
  add(telemetry_.taken_out_chunks, chunks);
  add(telemetry_.take_out_ns, telemetry::monotonic_ns() - began_ns);
}

void Pager::note(EventKind kind, ChunkId chunk, uint32_t count) {
  if (events_ == nullptr) return;
  events_->add(
      {.time_ns = telemetry::monotonic_ns(), .chunk = chunk, .count = count, .kind = kind});
}

void Pager::wake_live_pages(const Region& region, uint32_t index) {
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    region.space().uffd().wake(address, length_bytes);
  });
}

}  // namespace weightpager
