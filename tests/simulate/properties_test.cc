// What holds for every policy, whatever is touched, whatever the disk.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pager/policy/baselines/belady.h"
#include "pager/simulate/simulator.h"
#include "tests/simulate/random_trace.h"

namespace weightpager::simulate {
namespace {

using policy::Action;
using policy::ChunkState;

uint64_t reads_of(const SimulatedRun& run) {
  uint64_t reads = 0;
  for (const PassCounts& pass : run.passes) reads += pass.reads;
  return reads;
}

// The simulator ends only when every touch was served, and the chunk table stops the program if a
// chunk is read twice at once, or a read or eviction is not possible.
RC_GTEST_PROP(EveryPolicy, KeepsTheRules, ()) {
  Trace trace = any_trace();
  if (*rc::gen::arbitrary<bool>()) trace.order.access_profile = any_access_profile(trace.chunks);
  SimulatorOptions options;
  options.policy = any_policy();
  options.window_chunks = *rc::gen::inRange(window_chunks_min, 120u);
  options.disk = any_disk();
  options.seed = *rc::gen::arbitrary<uint32_t>();
  options.keeps_slot = options.policy == "belady" || *rc::gen::element(true, true, false);
  RC_TAG(options.policy);

  options.on_action = [&](const Action& action, const Situation& now) {
    const bool is_read = action.kind == Action::Kind::read;
    RC_ASSERT(now.table.resident() <= options.window_chunks - (is_read ? 1 : 0));
    // Nothing is read before what the engine waits for.
    const bool waits =
        now.waited_for != window::no_chunk && now.table.state(now.waited_for) == ChunkState::absent;
    if (is_read && waits) RC_ASSERT(action.chunk == now.waited_for && action.is_demand);
    // What it waits for, and what it was just given, stays.
    const bool is_eviction = action.kind == Action::Kind::evict;
    RC_ASSERT(!is_eviction || (action.chunk != now.waited_for && action.chunk != now.delivered));
  };
  const auto run = simulate(trace, options);
  RC_ASSERT(run.has_value());
  RC_ASSERT(run->passes.size() == trace.pass_begins.size());
}

RC_GTEST_PROP(EveryPolicy, ReadsNoLessThanBelady, ()) {
  const Trace trace = any_trace();
  const auto window = *rc::gen::inRange(window_chunks_min, 120u);
  const uint64_t least = policy::least_reads(trace.touched_chunks(), trace.chunks, window);
  SimulatorOptions options;
  options.window_chunks = window;
  options.disk = any_disk();
  options.policy = "belady";
  RC_ASSERT(reads_of(*simulate(trace, options)) == least);
  options.policy = any_policy();
  RC_TAG(options.policy);
  RC_ASSERT(reads_of(*simulate(trace, options)) >= least);
}

// The window changes while the engine runs: two passes later it is as if it had never been another.
RC_GTEST_PROP(PinStreamAndItsKin, FollowTheWindow, ()) {
  const Trace trace = dense(6, 20, 8);
  SimulatorOptions options;
  options.policy = *rc::gen::element<std::string>("pin-stream", "expert", "learned");
  options.window_chunks = *rc::gen::inRange(window_chunks_min, 140u);
  options.disk = *disk_by_name("nvme-gen4");
  options.disk.jitter = 0;
  options.resize_pass = 3;
  options.resize_chunks = *rc::gen::inRange(window_chunks_min, 140u);
  RC_TAG(options.policy);
  const auto resized = simulate(trace, options);
  options.window_chunks = options.resize_chunks;
  options.resize_pass = SIZE_MAX;
  const auto from_start = simulate(trace, options);
  const auto time_ns = static_cast<double>(resized->passes[5].time_ns);
  RC_ASSERT(time_ns <= 1.1 * static_cast<double>(from_start->passes.back().time_ns));
}

// The order is seen to be another one in the first pass, the pace in the next two.
RC_GTEST_PROP(Learned, OvercomesAWrongAccessProfile, ()) {
  Trace trace = dense(6, 20, 10);
  SimulatorOptions options;
  options.policy = "learned";
  options.window_chunks = *rc::gen::inRange(window_chunks_min, 110u);
  options.disk = *disk_by_name("nvme-gen4");
  options.disk.jitter = 0;
  const auto unprofiled = simulate(trace, options);
  trace.order.access_profile = any_access_profile(trace.chunks);
  // Of a whole model: few engines have another order only here and there.
  trace.order.access_profile.order = trace.order.cyclic;
  if (*rc::gen::arbitrary<bool>()) {
    std::shuffle(trace.order.access_profile.order.begin(), trace.order.access_profile.order.end(),
                 std::mt19937_64(*rc::gen::inRange<uint64_t>(0, 1000)));
  }
  trace.order.access_profile.computed_ns.resize(trace.order.cyclic.size(), 50'000);
  const auto profiled = simulate(trace, options);
  const auto time_ns = static_cast<double>(profiled->passes.back().time_ns);
  RC_ASSERT(time_ns <= 1.1 * static_cast<double>(unprofiled->passes.back().time_ns));
}

}  // namespace
}  // namespace weightpager::simulate
