#include "pager/simulate/simulator.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "pager/window/run.h"

namespace weightpager::simulate {
namespace {

using policy::Action;
using policy::ChunkState;
using policy::ChunkTable;
using window::no_chunk;
using window::Run;

constexpr uint64_t never_ns = UINT64_MAX;

policy::Settings settings_for(const Trace& trace, uint32_t window_chunks) {
  return {
      .chunk_bytes = trace.chunk_bytes,
      .reads_max = policy::reads_ahead_max(io::bytes_in_flight, trace.chunk_bytes, window_chunks),
      .evictions_max = window::chunks_together(window::move_bytes_max, trace.chunk_bytes)};
}

// Whether the chunk can go into one call with the run before it: its bytes and its slot follow the
// run's.
bool goes_along(const ChunkTable& table, const Run& run, ChunkId chunk, uint32_t count_max) {
  return window::comes_next(run, chunk, count_max) &&
         table.slot(chunk) == table.slot(run.first) + run.count;
}

// Reads on their way to the disk: neighbours become one request, and requests go there together.
class ReadGatherer {
 public:
  /// `table` and `disk` outlive this object. A request takes the pager `request_ns`.
  ReadGatherer(const ChunkTable& table, SimulatedDisk& disk, uint64_t chunk_bytes,
               uint64_t request_ns)
      : table_(table), disk_(disk), chunk_bytes_(chunk_bytes), request_ns_(request_ns) {}

  /// The chunk is being read. `pager_ns`: the pager's clock, which is advanced.
  void add(ChunkId chunk, uint64_t& pager_ns) {
    const uint32_t chunks_max = window::chunks_together(window::read_bytes_max, chunk_bytes_);
    if (!goes_along(table_, gathered_, chunk, chunks_max)) {
      end_request(pager_ns);
      gathered_ = {chunk, 0};
    }
    ++gathered_.count;
  }

  /// Hands everything over to the disk.
  void flush(uint64_t& pager_ns) {
    end_request(pager_ns);
    submit(pager_ns);
  }

  size_t requests_waiting() const { return unsubmitted_.size(); }

  static Run run_of(uint64_t tag) {
    return {static_cast<ChunkId>(tag), static_cast<uint32_t>(tag >> 32)};
  }

 private:
  void end_request(uint64_t& pager_ns) {
    if (gathered_.count == 0) return;
    pager_ns += request_ns_;
    unsubmitted_.push_back(gathered_);
    unsubmitted_bytes_ += gathered_.count * chunk_bytes_;
    gathered_.count = 0;
    if (unsubmitted_bytes_ >= io::submitted_at_once_bytes) submit(pager_ns);
  }

  void submit(uint64_t now_ns) {
    for (const Run& run : unsubmitted_) {
      disk_.start(tag_of(run), run.count * chunk_bytes_, now_ns);
    }
    unsubmitted_.clear();
    unsubmitted_bytes_ = 0;
  }

  static uint64_t tag_of(const Run& run) { return uint64_t{run.count} << 32 | run.first; }

  const ChunkTable& table_;
  SimulatedDisk& disk_;
  const uint64_t chunk_bytes_;
  const uint64_t request_ns_;
  Run gathered_;  // chunks that one request is to read
  std::vector<Run> unsubmitted_;
  uint64_t unsubmitted_bytes_ = 0;
};

class Simulator {
 public:
  Simulator(const Trace& trace, const SimulatorOptions& options)
      : trace_(trace),
        options_(options),
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

  Result<SimulatedRun> run() {
    for (size_t pass = 0; pass < trace_.pass_begins.size() && !is_abandoned(); ++pass)
      run_pass(pass);
    if (is_abandoned()) return fail("the simulation was abandoned", "");
    run_.statistics = policy_->statistics();
    run_.access_profile = policy_->access_profile();
    run_.pinned_chunks = policy_->pinned_chunks();
    run_.ring_chunks = policy_->ring_chunks();
    return std::move(run_);
  }

 private:
  // What the pager's thread does now, within one turn of its loop.
  enum class Doing { sleeping, taking_reads, taking_fault, carrying_out };

  bool is_abandoned() const {
    return options_.is_abandoned != nullptr && options_.is_abandoned->load();
  }
  PassCounts& pass_counts() { return run_.passes.back(); }

  // ---- The engine ----

  void run_pass(size_t pass) {
    if (pass == options_.resize_pass) resize(options_.resize_chunks);
    run_.passes.emplace_back();
    if (options_.pauses_before && options_.pauses_before(pass)) pause();
    if (options_.before_pass) options_.before_pass(pass, table_);
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

  void pause() {
    while (next_step_ns() != never_ns) step();
    now_ns_ = std::max(now_ns_, pager_ns_);
  }

  void resize(uint32_t chunks) {
    table_.set_resident_max(chunks);
    policy_->on_resized();
    ring();
  }

  // The engine touches a chunk; afterwards it is mapped.
  void come_to(const Touch& touch) {
    ++run_.events;
    delivered_ = no_chunk;
    if (table_.state(touch.chunk) == ChunkState::mapped) {
      if (!policy_->sees_every_touch()) return;
      policy_->on_time(now_ns_);
      policy_->on_touch(touch.chunk, touch.offset_bytes);
      return ring();
    }
    const uint64_t began_ns = now_ns_;
    fault_ = &touch;
    const bool is_pager_awake = doing_ != Doing::sleeping || pager_ns_ > now_ns_;
    fault_seen_ns_ = is_pager_awake ? now_ns_ : now_ns_ + handling_.fault_ns / 2;
    served_ns_ = never_ns;
    for (int vain = 0; served_ns_ == never_ns;) {
      if (next_step_ns() != never_ns) {
        step();
        vain = 0;
        continue;
      }
      // Nothing more comes by itself: the policy has to reconsider what was refused, and what it
      // counts on.
      WP_ASSERT(++vain < 3);
      policy_->on_standstill();
      doing_ = Doing::carrying_out;
    }
    now_ns_ = std::max(now_ns_, served_ns_);
    wait_for_processor();
    pass_until(now_ns_ + handling_.to_go_on());
    keep(TimelineSpan::Kind::stall, touch.chunk, began_ns, now_ns_);
    pass_counts().stall_ns += now_ns_ - began_ns;
  }

  // Where both share one processor, the engine has it when the pager has nothing more to do.
  void wait_for_processor() {
    if (!handling_.shares_processor) return;
    while (next_step_ns() <= std::max(now_ns_, pager_ns_)) step();
    now_ns_ = std::max(now_ns_, pager_ns_);
  }

  void pass_until(uint64_t until_ns) {
    while (next_step_ns() <= until_ns) step();
    now_ns_ = until_ns;
  }

  // ---- The pager's thread: PagerLoop::serve ----

  // Wakes the pager, though nothing was read and no thread waits.
  void ring() { rung_ns_ = std::min(rung_ns_, now_ns_); }

  uint64_t next_step_ns() const {
    if (doing_ != Doing::sleeping) return pager_ns_;
    const uint64_t read_ns = disk_.is_idle() ? never_ns : disk_.next_finish_ns();
    const uint64_t fault_ns = fault_ == nullptr ? never_ns : fault_seen_ns_;
    return std::max(pager_ns_, std::min({read_ns, fault_ns, rung_ns_}));
  }

  // Does the next of the things that the pager does in a turn; afterwards pager_ns_ is when it is
  // done.
  void step() {
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
        doing_ = Doing::taking_fault;
        return;
      case Doing::taking_fault:
        if (fault_ != nullptr && fault_seen_ns_ <= turn_began_ns_) take_fault();
        doing_ = Doing::carrying_out;
        return;
      case Doing::carrying_out:
        if (carry_out_one()) return;
        reads_.flush(pager_ns_);
        doing_ = Doing::sleeping;
    }
  }

  bool is_read_done() const { return !disk_.is_idle() && disk_.next_finish_ns() <= turn_began_ns_; }

  void take_read() {
    const SimulatedDisk::Finished done = disk_.take_finished();
    const Run read = ReadGatherer::run_of(done.tag);
    keep(demanded_[read.first] ? TimelineSpan::Kind::demand_read : TimelineSpan::Kind::read,
         read.first, done.started_ns, done.finished_ns);
    for (ChunkId chunk = read.first; chunk < read.first + read.count; ++chunk) {
      ++run_.events;
      table_.finish_read(chunk);
      if (!policy_->on_ready(chunk) && chunk != waited_for_) continue;
      if (!goes_along(table_, wanted_, chunk, move_chunks_max_)) {
        map_wanted();
        wanted_ = {chunk, 0};
      }
      ++wanted_.count;
    }
  }

  void map_wanted() {
    map(wanted_);
    wanted_.count = 0;
  }

  void take_fault() {
    const Touch& touch = *std::exchange(fault_, nullptr);
    const ChunkState state = table_.state(touch.chunk);
    const bool is_mapped = state == ChunkState::mapped;
    if (!is_mapped || policy_->sees_every_touch()) {
      policy_->on_touch(touch.chunk, touch.offset_bytes);
    }
    // The chunk came in the meantime: no thread waits for it.
    if (is_mapped) return serve();
    waited_for_ = touch.chunk;
    if (state == ChunkState::ready) {
      ++pass_counts().tripwires;
      return map({touch.chunk, 1});
    }
    ++(state == ChunkState::reading ? pass_counts().late_touches : pass_counts().demand_reads);
  }

  void map(const Run& run) {
    if (run.count == 0) return;
    ++pass_counts().shows;
    pager_ns_ += handling_.to_show(trace_.chunk_bytes, run.count);
    for (ChunkId chunk = run.first; chunk < run.first + run.count; ++chunk) {
      table_.map(chunk, options_.keeps_slot);
      if (chunk == waited_for_) serve();
    }
  }

  // The engine runs on.
  void serve() {
    delivered_ = std::exchange(waited_for_, no_chunk);
    served_ns_ = pager_ns_;
  }

  // Returns false if the policy has no more wishes, or too much is under way.
  bool carry_out_one() {
    if (disk_.reads_in_flight() + reads_.requests_waiting() >= reads_max_) return false;
    const Action action = policy_->next();
    if (action.kind == Action::Kind::none) return false;
    ++run_.events;
    if (options_.on_action) options_.on_action(action, {table_, waited_for_, delivered_});
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

  void start_read(const Action& action) {
    table_.start_read(action.chunk);
    demanded_[action.chunk] = action.is_demand;
    ++pass_counts().reads;
    reads_.add(action.chunk, pager_ns_);
  }

  void evict(const Run& run) {
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

  void hide(ChunkId chunk) {
    if (!options_.keeps_slot) return policy_->on_refused(chunk);
    take_out(1);
    table_.hide(chunk);
  }

  void take_out(uint32_t chunks) {
    ++pass_counts().take_outs;
    pager_ns_ += handling_.to_take_out(trace_.chunk_bytes, chunks);
  }

  void keep(TimelineSpan::Kind kind, ChunkId chunk, uint64_t begin_ns, uint64_t end_ns) {
    if (!keeps_timeline_ || end_ns <= pass_began_ns_ || begin_ns == end_ns) return;
    begin_ns = std::max(begin_ns, pass_began_ns_) - pass_began_ns_;
    run_.timeline.push_back({kind, chunk, begin_ns, end_ns - pass_began_ns_});
  }

  const Trace& trace_;
  const SimulatorOptions& options_;
  const Handling handling_;
  const uint32_t move_chunks_max_;
  const std::vector<ChunkId> future_;
  ChunkTable table_;
  const std::unique_ptr<policy::Policy> policy_;
  SimulatedDisk disk_;
  ReadGatherer reads_;
  uint32_t reads_max_ = 0;
  std::vector<bool> demanded_;  // by chunk: its last read was begun because the engine waited
  SimulatedRun run_;

  // The engine.
  uint64_t now_ns_ = 0;
  uint64_t pass_began_ns_ = 0;
  bool keeps_timeline_ = false;
  const Touch* fault_ = nullptr;  // a fault that the pager has not taken yet
  uint64_t fault_seen_ns_ = 0;    // when the pager may take it
  uint64_t served_ns_ = never_ns;

  // The pager's thread.
  Doing doing_ = Doing::sleeping;
  uint64_t pager_ns_ = 0;
  uint64_t turn_began_ns_ = 0;
  uint64_t rung_ns_ = never_ns;
  ChunkId waited_for_ = no_chunk;
  ChunkId delivered_ = no_chunk;
  Run wanted_;  // chunks that were read and are to be shown
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
