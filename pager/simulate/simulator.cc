#include "pager/simulate/simulator.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::simulate {
namespace {

using policy::Action;
using policy::ChunkState;
using policy::ChunkTable;
using window::no_chunk;

constexpr uint64_t prefetch_bytes_in_flight = 16 * MiB;

policy::Settings settings_for(const Trace& trace, uint32_t window_chunks) {
  return {.chunk_bytes = trace.chunk_bytes,
          .reads_max =
              policy::reads_ahead_max(prefetch_bytes_in_flight, trace.chunk_bytes, window_chunks)};
}

class Simulator {
 public:
  Simulator(const Trace& trace, const SimulatorOptions& options)
      : trace_(trace),
        options_(options),
        future_(trace.touched_chunks()),
        table_(options.window_chunks),
        policy_(policy::make_policy(options.policy, table_,
                                    settings_for(trace, options.window_chunks), future_)),
        disk_(options.disk, options.seed) {
    reads_max_ = settings_for(trace, options.window_chunks).reads_max + policy::demand_reads_max;
    table_.add_chunks(trace.chunks);
    const uint32_t slots = std::max(options.window_chunks, options.resize_chunks);
    for (window::SlotId slot = 0; slot < slots; ++slot) table_.add_slot(slot);
    policy_->set_order(trace.order);
    demanded_.assign(trace.chunks, false);
  }

  Result<SimulatedRun> run() {
    for (size_t pass = 0; pass < trace_.pass_begins.size() && !is_abandoned(); ++pass)
      run_pass(pass);
    if (is_abandoned()) return fail("the simulation was abandoned", "");
    run_.statistics = policy_->statistics();
    run_.lesson = policy_->lesson();
    run_.pinned_chunks = policy_->pinned_chunks();
    run_.ring_chunks = policy_->ring_chunks();
    return std::move(run_);
  }

 private:
  bool is_abandoned() const {
    return options_.is_abandoned != nullptr && options_.is_abandoned->load();
  }

  void run_pass(size_t pass) {
    if (pass == options_.resize_pass) resize(options_.resize_chunks);
    run_.passes.emplace_back();
    pass_began_ns_ = now_ns_;
    keeps_timeline_ = pass == options_.timeline_pass;
    for (uint64_t place = trace_.pass_begins[pass]; place < trace_.pass_end(pass); ++place) {
      if (is_abandoned()) return;
      const Touch& touch = trace_.touches[place];
      come_to(touch);
      keep(TimelineSpan::Kind::compute, touch.chunk, now_ns_, now_ns_ + touch.compute_ns);
      pass_counts().compute_ns += touch.compute_ns;
      pass_until(now_ns_ + touch.compute_ns);
    }
    pass_counts().time_ns = now_ns_ - pass_began_ns_;
  }

  PassCounts& pass_counts() { return run_.passes.back(); }

  void resize(uint32_t chunks) {
    table_.set_resident_max(chunks);
    policy_->on_resized();
    carry_out();
  }

  // The engine touches a chunk; afterwards it is mapped.
  void come_to(const Touch& touch) {
    ++run_.events;
    const ChunkState state = table_.state(touch.chunk);
    const bool is_mapped = state == ChunkState::mapped;
    delivered_ = no_chunk;
    if (is_mapped && !policy_->sees_every_touch()) return;
    policy_->on_time(now_ns_);
    policy_->on_touch(touch.chunk, touch.offset_bytes);
    if (is_mapped) return carry_out();
    waited_for_ = touch.chunk;
    const uint64_t began_ns = now_ns_;
    if (state == ChunkState::ready) {
      ++pass_counts().tripwires;
      map(touch.chunk);
    } else {
      ++(state == ChunkState::reading ? pass_counts().late_touches : pass_counts().demand_reads);
    }
    carry_out();
    for (int vain = 0; table_.state(touch.chunk) != ChunkState::mapped;) {
      if (!disk_.is_idle()) {
        finish_read();
        vain = 0;
        continue;
      }
      // Nothing comes any more: what was refused, or counted upon, has to be thought over.
      WP_ASSERT(++vain < 3);
      policy_->on_standstill();
      carry_out();
    }
    waited_for_ = no_chunk;
    delivered_ = touch.chunk;
    pass_until(now_ns_ + options_.fault_ns);
    keep(TimelineSpan::Kind::stall, touch.chunk, began_ns, now_ns_);
    pass_counts().stall_ns += now_ns_ - began_ns;
  }

  void pass_until(uint64_t until_ns) {
    while (!disk_.is_idle() && disk_.next_finish_ns() <= until_ns) finish_read();
    now_ns_ = until_ns;
  }

  void finish_read() {
    const SimulatedDisk::Finished read = disk_.take_finished();
    ++run_.events;
    now_ns_ = std::max(now_ns_, read.finished_ns);
    const auto chunk = static_cast<ChunkId>(read.tag);
    const bool was_demanded = demanded_[chunk];
    keep(was_demanded ? TimelineSpan::Kind::demand_read : TimelineSpan::Kind::read, chunk,
         read.started_ns, read.finished_ns);
    table_.finish_read(chunk);
    policy_->on_time(now_ns_);
    if (policy_->on_ready(chunk) || chunk == waited_for_) map(chunk);
    carry_out();
  }

  void map(ChunkId chunk) { table_.map(chunk, options_.keeps_slot); }

  void carry_out() {
    while (disk_.reads_in_flight() < reads_max_) {
      const Action action = policy_->next();
      if (action.kind == Action::Kind::none) return;
      ++run_.events;
      if (options_.on_action) options_.on_action(action, {table_, waited_for_, delivered_});
      switch (action.kind) {
        case Action::Kind::read:
          table_.start_read(action.chunk);
          demanded_[action.chunk] = action.is_demand;
          disk_.start(action.chunk, trace_.chunk_bytes, action.is_demand, now_ns_);
          ++pass_counts().reads;
          break;
        case Action::Kind::evict:
          for (uint32_t i = 0; i < action.count; ++i) table_.release(action.chunk + i);
          break;
        case Action::Kind::hold:
          if (options_.keeps_slot) {
            table_.hold(action.chunk);
          } else {
            policy_->on_refused(action.chunk);
          }
          break;
        case Action::Kind::none:
          return;
      }
    }
  }

  void keep(TimelineSpan::Kind kind, ChunkId chunk, uint64_t begin_ns, uint64_t end_ns) {
    if (!keeps_timeline_ || end_ns <= pass_began_ns_ || begin_ns == end_ns) return;
    begin_ns = std::max(begin_ns, pass_began_ns_) - pass_began_ns_;
    run_.timeline.push_back({kind, chunk, begin_ns, end_ns - pass_began_ns_});
  }

  const Trace& trace_;
  const SimulatorOptions& options_;
  const std::vector<ChunkId> future_;
  ChunkTable table_;
  const std::unique_ptr<policy::Policy> policy_;
  SimulatedDisk disk_;
  uint32_t reads_max_ = 0;
  std::vector<bool> demanded_;  // by chunk: its last read was begun because the engine waited
  uint64_t now_ns_ = 0;
  uint64_t pass_began_ns_ = 0;
  bool keeps_timeline_ = false;
  ChunkId waited_for_ = no_chunk;
  ChunkId delivered_ = no_chunk;
  SimulatedRun run_;
};

}  // namespace

Result<SimulatedRun> simulate(const Trace& trace, const SimulatorOptions& options) {
  if (auto known = policy::check_policy(options.policy, false); !known) {
    return forward_error(std::move(known));
  }
  if (options.window_chunks < window_chunks_min) {
    return fail("a window of " + format_size(options.window_chunks * trace.chunk_bytes) +
                    " is too small for chunks of " + format_size(trace.chunk_bytes),
                "take " + format_size(window_chunks_min * trace.chunk_bytes) + " or more");
  }
  WP_ASSERT(options.resize_pass == SIZE_MAX || options.resize_chunks >= window_chunks_min);
  return Simulator(trace, options).run();
}

}  // namespace weightpager::simulate
