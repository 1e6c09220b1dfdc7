#include "pager/simulate/simulated_pager.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"

namespace weightpager::simulate {

using policy::Action;
using policy::ChunkState;
using window::no_chunk;
using window::Run;

namespace {

policy::Settings settings_for(const Trace& trace, uint32_t window_chunks) {
  return {
      .chunk_bytes = trace.chunk_bytes,
      .reads_max = policy::reads_ahead_max(io::bytes_in_flight, trace.chunk_bytes, window_chunks),
      .evictions_max = window::chunks_together(window::move_bytes_max, trace.chunk_bytes)};
}

}  // namespace

SimulatedPager::SimulatedPager(const Trace& trace, const SimulatorOptions& options,
                               SimulatedRun& run)
    : trace_(trace),
      options_(options),
      run_(run),
      handling_(options.handling),
      move_chunks_max_(window::chunks_together(window::move_bytes_max, trace.chunk_bytes)),
      future_(trace.touched_chunks()),
      table_(options.window_chunks),
      policy_(policy::make_policy(options.policy, table_,
                                  settings_for(trace, options.window_chunks), future_)),
      disk_(options.disk, options.seed),
      reads_(table_, disk_, trace.chunk_bytes, options.handling.request_ns) {
  reads_max_ = settings_for(trace, options.window_chunks).reads_max + policy::demand_reads_max;
  table_.add_chunks(trace.chunks);
  const uint32_t slots = std::max(options.window_chunks, options.resize_chunks);
  for (window::SlotId slot = 0; slot < slots; ++slot) table_.add_slot(slot);
  policy_->set_order(trace.order);
  demanded_.assign(trace.chunks, false);
}

void SimulatedPager::begin_pass(uint64_t now_ns, bool keeps_timeline) {
  pass_began_ns_ = now_ns;
  keeps_timeline_ = keeps_timeline;
}

void SimulatedPager::end() {
  run_.statistics = policy_->statistics();
  run_.access_profile = policy_->access_profile();
  run_.pinned_chunks = policy_->pinned_chunks();
  run_.ring_chunks = policy_->ring_chunks();
}

// ---- What happens to it ----

void SimulatedPager::resize(uint32_t chunks, uint64_t now_ns) {
  table_.set_resident_max(chunks);
  policy_->on_resized();
  ring(now_ns);
}

bool SimulatedPager::touch_seen(uint32_t thread, const Touch& touch, uint64_t now_ns,
                                bool is_mapped) {
  if (is_mapped) {
    policy_->on_time(now_ns);
    policy_->on_touch(touch.chunk, touch.offset_bytes);
    ring(now_ns);
    return true;
  }
  const bool is_awake = doing_ != Doing::sleeping || pager_ns_ > now_ns;
  faults_.push_back({&touch, thread, is_awake ? now_ns : now_ns + handling_.fault_ns / 2});
  return false;
}

void SimulatedPager::ring(uint64_t now_ns) { rung_ns_ = std::min(rung_ns_, now_ns); }

void SimulatedPager::stand_still() {
  policy_->on_standstill();
  doing_ = Doing::carrying_out;
}

// ---- What it does ----

// Does the next of the things that it does in a turn; afterwards pager_ns_ is when that is done.
void SimulatedPager::step() {
  switch (doing_) {
    case Doing::sleeping:
      pager_ns_ = turn_began_ns_ = next_step_ns();
      rung_ns_ = never_ns;
      if (is_read_done()) pager_ns_ += handling_.turn_ns;
      policy_->on_time(turn_began_ns_);
      doing_ = Doing::taking_reads;
      return;
    case Doing::taking_reads:
      if (is_read_done()) return take_read();
      map_wanted();
      doing_ = Doing::taking_faults;
      return;
    case Doing::taking_faults:
      take_faults();
      doing_ = Doing::carrying_out;
      return;
    case Doing::carrying_out:
      if (carry_out_one()) return;
      reads_.flush(pager_ns_);
      doing_ = Doing::sleeping;
  }
}

bool SimulatedPager::is_read_done() const {
  return !disk_.is_idle() && disk_.next_finish_ns() <= turn_began_ns_;
}

bool SimulatedPager::is_waited_for(ChunkId chunk) const {
  return std::ranges::find(waiters_, chunk, &Waiter::chunk) != waiters_.end();
}

void SimulatedPager::take_read() {
  const SimulatedDisk::Finished done = disk_.take_finished();
  const Run read = ReadGatherer::run_of(done.tag);
  keep(demanded_[read.first] ? TimelineSpan::Kind::demand_read : TimelineSpan::Kind::read,
       read.first, done.started_ns, done.finished_ns);
  for (ChunkId chunk = read.first; chunk < read.first + read.count; ++chunk) {
    ++run_.events;
    table_.finish_read(chunk);
    if (!policy_->on_ready(chunk) && !is_waited_for(chunk)) continue;
    if (!goes_along(table_, wanted_, chunk, move_chunks_max_)) {
      map_wanted();
      wanted_ = {chunk, 0};
    }
    ++wanted_.count;
  }
}

void SimulatedPager::map_wanted() {
  map(wanted_);
  wanted_.count = 0;
}

void SimulatedPager::take_faults() {
  if (faults_.empty()) return;
  size_t taken = 0;
  while (taken < faults_.size() && faults_[taken].seen_ns <= turn_began_ns_) {
    take_fault(faults_[taken++]);
  }
  faults_.erase(faults_.begin(), faults_.begin() + static_cast<std::ptrdiff_t>(taken));
}

void SimulatedPager::take_fault(const Fault& fault) {
  const Touch& touch = *fault.touch;
  const ChunkState state = table_.state(touch.chunk);
  const bool is_mapped = state == ChunkState::mapped;
  const bool is_first = !is_waited_for(touch.chunk);
  if (is_first && (!is_mapped || policy_->sees_every_touch())) {
    policy_->on_touch(touch.chunk, touch.offset_bytes);
  }
  // The chunk came in the meantime: no thread waits for it.
  if (is_mapped) {
    delivered_ = no_chunk;
    served_.push_back({fault.thread, pager_ns_});
    return;
  }
  waiters_.push_back({touch.chunk, fault.thread});
  if (!is_first) return;
  if (state == ChunkState::ready) {
    ++counts().tripwires;
    return map({touch.chunk, 1});
  }
  ++(state == ChunkState::reading ? counts().late_touches : counts().demand_reads);
}

void SimulatedPager::map(const Run& run) {
  if (run.count == 0) return;
  ++counts().shows;
  pager_ns_ += handling_.to_show(trace_.chunk_bytes, run.count);
  for (ChunkId chunk = run.first; chunk < run.first + run.count; ++chunk) {
    table_.map(chunk, options_.keeps_slot);
    serve(chunk);
  }
}

// The threads that wait for the chunk run on.
void SimulatedPager::serve(ChunkId chunk) {
  if (waiters_.empty()) return;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.chunk != chunk) return false;
    served_.push_back({waiter.thread, pager_ns_});
    delivered_ = chunk;
    return true;
  });
}

// Returns false if the policy has no more wishes, or too much is under way.
bool SimulatedPager::carry_out_one() {
  if (disk_.reads_in_flight() + reads_.requests_waiting() >= reads_max_) return false;
  const Action action = policy_->next();
  if (action.kind == Action::Kind::none) return false;
  ++run_.events;
  if (options_.on_action) {
    const ChunkId waited_for = waiters_.empty() ? no_chunk : waiters_.front().chunk;
    options_.on_action(action, {table_, waited_for, delivered_});
  }
  switch (action.kind) {
    case Action::Kind::read:
      start_read(action);
      break;
    case Action::Kind::evict:
      evict({action.chunk, action.count});
      break;
    case Action::Kind::hide:
      hide(action.chunk);
      break;
    case Action::Kind::none:
      break;
  }
  return true;
}

void SimulatedPager::start_read(const Action& action) {
  table_.start_read(action.chunk);
  demanded_[action.chunk] = action.is_demand;
  ++counts().reads;
  reads_.add(action.chunk, pager_ns_);
}

void SimulatedPager::evict(const Run& run) {
  const auto is_mapped = [&](ChunkId chunk) { return table_.state(chunk) == ChunkState::mapped; };
  const auto has_moved = [&](ChunkId chunk) {
    return is_mapped(chunk) && table_.slot(chunk) != window::no_slot;
  };
  for (Run rest = run; rest.count > 0;) {
    const uint32_t count = window::count_together(table_, rest, has_moved);
    if (is_mapped(rest.first)) take_out(count);
    for (uint32_t i = 0; i < count; ++i) table_.release(rest.first + i);
    rest = {rest.first + count, rest.count - count};
  }
}

void SimulatedPager::hide(ChunkId chunk) {
  if (!options_.keeps_slot) return policy_->on_not_hidden(chunk);
  take_out(1);
  table_.hide(chunk);
}

void SimulatedPager::take_out(uint32_t chunks) {
  ++counts().take_outs;
  pager_ns_ += handling_.to_take_out(trace_.chunk_bytes, chunks);
}

void SimulatedPager::add_to_timeline(TimelineSpan::Kind kind, ChunkId chunk, uint64_t begin_ns,
                                     uint64_t end_ns) {
  if (end_ns <= pass_began_ns_ || begin_ns == end_ns) return;
  begin_ns = std::max(begin_ns, pass_began_ns_) - pass_began_ns_;
  run_.timeline.push_back({kind, chunk, begin_ns, end_ns - pass_began_ns_});
}

}  // namespace weightpager::simulate
