#include "pager/simulate/simulator.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/simulate/engine_threads.h"
#include "pager/simulate/simulated_pager.h"

namespace weightpager::simulate {
namespace {

// Lets the engine's threads and the pager take their steps in the order of their clocks; where both
// are at one time the pager goes first.
class Simulator {
  static constexpr policy::ChunkState mapped = policy::ChunkState::mapped;

 public:
  Simulator(const Trace& trace, const SimulatorOptions& options)
      : trace_(trace),
        options_(options),
        pager_(trace, options, run_),
        threads_(trace, options.processors),
        waits_since_ns_(trace.threads, 0) {}

  Result<SimulatedRun> run() {
    for (size_t pass = 0; pass < trace_.pass_begins.size() && !is_abandoned(); ++pass)
      run_pass(pass);
    if (is_abandoned()) return fail("the simulation was abandoned", "");
    pager_.end();
    return std::move(run_);
  }

 private:
  bool is_abandoned() const {
    return options_.is_abandoned != nullptr && options_.is_abandoned->load();
  }
  PassCounts& pass_counts() { return run_.passes.back(); }

  void run_pass(size_t pass) {
    if (pass == options_.resize_pass) pager_.resize(options_.resize_chunks, now_ns_);
    run_.passes.emplace_back();
    if (options_.pauses_before && options_.pauses_before(pass)) pause();
    if (options_.before_pass) options_.before_pass(pass, pager_.table());
    const uint64_t began_ns = now_ns_;
    pager_.begin_pass(began_ns, pass == options_.timeline_pass);
    threads_.begin_pass(pass, began_ns);
    while (!threads_.is_pass_over()) {
      if (is_abandoned()) return;
      take_step();
    }
    now_ns_ = threads_.end_ns();
    pass_counts().time_ns = now_ns_ - began_ns;
  }

  void pause() {
    while (pager_.next_step_ns() != never_ns) pager_.step();
    now_ns_ = std::max(now_ns_, pager_.clock_ns());
  }

  void take_step() {
    const uint64_t pager_ns = pager_.next_step_ns();
    const uint64_t thread_ns = threads_.next_ns();
    if (pager_ns == never_ns && thread_ns == never_ns) {
      WP_ASSERT(++standstills_ < 3);
      return pager_.stand_still();
    }
    standstills_ = 0;
    if (pager_ns > thread_ns) return take_step_of_engine();
    pager_.step();
    while (pager_.has_served()) go_on_with_served();
  }

  void take_step_of_engine() {
    const uint32_t thread = threads_.next_thread();
    const uint64_t now_ns = threads_.next_ns();
    const EngineThreads::Step step = threads_.step();
    if (step == EngineThreads::Step::nothing) return;
    const Touch& touch = threads_.touch(thread);
    const bool has_left =
        step == EngineThreads::Step::leave && pager_.table().state(touch.chunk) == mapped;
    if (has_left) return threads_.leave();
    if (step != EngineThreads::Step::go_on && !pager_.touch(thread, touch, now_ns)) {
      waits_since_ns_[thread] = now_ns;
      return threads_.wait();
    }
    if (step == EngineThreads::Step::go_on) {
      pager_.keep(TimelineSpan::Kind::stall, touch.chunk, waits_since_ns_[thread], now_ns);
      pass_counts().stall_ns += now_ns - waits_since_ns_[thread];
    }
    if (threads_.has_computed(thread)) return threads_.leave();
    const uint64_t begin_ns = threads_.compute();
    pager_.keep(TimelineSpan::Kind::compute, touch.chunk, begin_ns, begin_ns + touch.compute_ns);
    pass_counts().compute_ns += touch.compute_ns;
  }

  void go_on_with_served() {
    served_.clear();
    pager_.take_served(served_);
    for (const SimulatedPager::Served& it : served_) {
      const uint64_t at_ns = std::max(waits_since_ns_[it.thread], it.at_ns);
      threads_.resume(it.thread, wait_for_processor(at_ns) + options_.handling.to_go_on());
    }
  }

  // Where all share one processor, a thread has it when the pager has nothing more to do. Returns
  // when that is.
  uint64_t wait_for_processor(uint64_t now_ns) {
    if (!options_.handling.shares_processor) return now_ns;
    while (pager_.next_step_ns() <= std::max(now_ns, pager_.clock_ns())) pager_.step();
    return std::max(now_ns, pager_.clock_ns());
  }

  const Trace& trace_;
  const SimulatorOptions& options_;
  SimulatedRun run_;
  SimulatedPager pager_;
  EngineThreads threads_;
  std::vector<uint64_t> waits_since_ns_;  // by thread
  std::vector<SimulatedPager::Served> served_;
  uint64_t now_ns_ = 0;  // when a pass begins or has ended
  int standstills_ = 0;
};

}  // namespace

Result<SimulatedRun> simulate(const Trace& trace, const SimulatorOptions& options) {
  Status known = policy::check_policy(options.policy, false);
  // The order of several threads' touches is not known beforehand, as in a live run.
  if (known && trace.threads > 1) known = policy::check_policy(options.policy, true);
  if (!known) return forward_error(std::move(known));
  if (options.window_chunks < window_chunks_min) {
    return fail("a window of " + format_size(options.window_chunks * trace.chunk_bytes) +
                    " is too small for chunks of " + format_size(trace.chunk_bytes),
                "take " + format_size(window_chunks_min * trace.chunk_bytes) + " or more");
  }
  WP_ASSERT(options.processors > 0);
  WP_ASSERT(options.resize_pass == SIZE_MAX || options.resize_chunks >= window_chunks_min);
  return Simulator(trace, options).run();
}

}  // namespace weightpager::simulate
