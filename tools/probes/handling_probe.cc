#include "tools/probes/handling_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/pager.h"
#include "pager/simulate/make_trace.h"
#include "tools/probes/live_policy.h"

namespace weightpager::tools {
namespace {

using simulate::CallCosts;
using simulate::Handling;
using simulate::Trace;

constexpr uint64_t small_chunk_bytes = 128 * KiB;
/// The engine's pause between touches. The pager sleeps meanwhile.
constexpr uint64_t nap_ns = 300'000;

constexpr uint64_t small_chunks = window_bytes_min / small_chunk_bytes;

struct Probe {
  const char* policy;
  Trace trace;
  uint64_t window_bytes;
};

/// Touches all chunks in turns, in the smallest window.
Probe touches_in_turns(uint64_t chunk_bytes, uint64_t chunks, uint32_t passes,
                       uint64_t compute_ns) {
  Probe probe{.policy = "lru", .trace = {}, .window_bytes = window_bytes_min};
  Trace& trace = probe.trace;
  trace.chunk_bytes = chunk_bytes;
  trace.chunks = static_cast<uint32_t>(chunks);
  for (uint32_t pass = 0; pass < passes; ++pass) {
    trace.pass_begins.push_back(trace.touches.size());
    for (uint32_t chunk = 0; chunk < trace.chunks; ++chunk) {
      trace.touches.push_back({.chunk = chunk, .offset_bytes = 0, .compute_ns = compute_ns});
    }
  }
  return probe;
}

/// As many chunks as fit into the window: all stay resident, and the half that was touched longest
/// ago is hidden. So each touch shows one chunk and hides another.
Probe touches_of_hidden_chunks(uint64_t chunk_bytes, uint32_t passes) {
  return touches_in_turns(chunk_bytes, window_bytes_min / chunk_bytes, passes, nap_ns);
}

/// Twice as many chunks: each touch reads a chunk, and nothing is read ahead.
Probe touches_of_absent_chunks() {
  return touches_in_turns(small_chunk_bytes, 2 * small_chunks, 8, 0);
}

/// The pager's own counts of a live run, after half of its passes.
Result<LiveRun> run(const model::Model& model, const Probe& probe,
                    std::function<void(size_t pass)> between_passes = {}) {
  LiveOptions options;
  options.between_passes = std::move(between_passes);
  options.policy = probe.policy;
  options.window_bytes = probe.window_bytes;
  options.warm_up_passes = probe.trace.pass_begins.size() / 2;
  auto live = run_live(model, probe.trace, options);
  if (!live) return live;
  if (live->shown.times > 0 && live->taken_out.times > 0) return live;
  return fail("the pager neither showed a chunk nor took one out", "weightpager doctor");
}

/// A straight line through the times of one chunk and of several at once. (Mappers that move
/// nothing show and take out each chunk by itself.)
CallCosts line(const Handled& single, const Handled& several) {
  constexpr uint64_t chunk_pages = small_chunk_bytes / os_page_bytes;
  constexpr auto pages = static_cast<double>(chunk_pages);
  const double more_chunks = several.mean_chunks() - single.mean_chunks();
  if (more_chunks < 1) return {0, static_cast<uint64_t>(single.mean_ns() / pages)};
  const double chunk_ns =
      std::clamp((several.mean_ns() - single.mean_ns()) / more_chunks, 0.0, single.mean_ns());
  return {static_cast<uint64_t>(single.mean_ns() - chunk_ns),
          static_cast<uint64_t>(chunk_ns / pages)};
}

/// The time of a touch of a hidden chunk, without the time for showing that chunk and, on the same
/// processor, taking out the other one.
Result<uint64_t> fault_ns(const LiveRun& live) {
  const simulate::PassCounts& last = live.passes.back();
  // The kernel may refuse to hide one or the other.
  if (last.tripwires < small_chunks / 2 || last.demand_reads > 0) {
    return fail(fmt::format("of {} touches of chunks in the window {} could be timed, and {} read",
                            small_chunks, last.tripwires, last.demand_reads),
                "does another program need the processors? Then try again");
  }
  const uint64_t waited_ns = last.time_ns - std::min(last.compute_ns, last.time_ns);
  const double touch_ns = static_cast<double>(waited_ns) / static_cast<double>(last.tripwires);
  return static_cast<uint64_t>(
      std::max(touch_ns - live.shown.mean_ns() - live.taken_out.mean_ns(), 1.0));
}

/// The processor time of a read that somebody waits for, without the time that the read takes
/// without a pager, and without the parts that are counted by themselves. The disk is probed
/// between the passes, on the processor that they run on; the disk's speed does not matter here.
Result<uint64_t> turn_ns(const model::Model& model, DiskProbe& disk, uint64_t fault_ns) {
  constexpr std::chrono::milliseconds asked_for{60};
  const Probe probe = touches_of_absent_chunks();
  std::vector<uint64_t> single_ns;
  std::optional<Error> problem;
  const auto live = run(model, probe, [&](size_t) {
    const auto single = disk.read(1, small_chunk_bytes, asked_for);
    if (!single) problem = single.error();
    if (single) single_ns.push_back(single->request_ns);
  });
  if (!live) return tl::make_unexpected(live.error());
  if (problem) return tl::make_unexpected(*problem);
  const uint64_t reads = probe.trace.touches.size() / 2;
  const uint64_t counted_ns =
      live->shown.ns + live->taken_out.ns + reads * fault_ns + reads * median(single_ns);
  return (live->processor_ns - std::min(counted_ns, live->processor_ns)) / reads;
}

/// A mixture of experts that is laid over the file, half of it in the window. The chunks of one
/// expert are shown and taken out together.
Result<LiveRun> run_experts(const std::string& path) {
  auto model = simulate::model_of(
      {.layers = 2, .dense_bytes = 0, .experts = 8, .experts_used = 2, .slab_bytes = 2 * MiB});
  model.files.front().path = path;
  const uint64_t size_bytes = model.files.front().size_bytes;
  auto trace = in_naps(simulate::make_trace(model, {.passes = 32, .zipf_exponent = 0.5}, path));
  WP_ASSERT(trace.chunk_bytes == small_chunk_bytes);
  return run(model, {"expert", std::move(trace), size_bytes / 2});
}

}  // namespace

Result<Handling> measure_handling(DiskProbe& probe) {
  const std::string& path = probe.path();
  auto model = model::open_model(path);
  if (!model) return forward_error(std::move(model));
  const auto huge = run(*model, touches_of_hidden_chunks(huge_page_bytes, 64));
  if (!huge) return tl::make_unexpected(huge.error());
  const auto small = run(*model, touches_of_hidden_chunks(small_chunk_bytes, 4));
  if (!small) return tl::make_unexpected(small.error());
  const auto experts = run_experts(path);
  if (!experts) return tl::make_unexpected(experts.error());
  const auto fault = fault_ns(*small);
  if (!fault) return tl::make_unexpected(fault.error());
  const auto turn = turn_ns(*model, probe, *fault);
  if (!turn) return tl::make_unexpected(turn.error());
  Handling handling;
  handling.fault_ns = *fault;
  handling.turn_ns = *turn;
  handling.shares_processor = true;  // run_live() puts engine and pager on one processor
  handling.show = line(small->shown, experts->shown);
  handling.take_out = line(small->taken_out, experts->taken_out);
  handling.show_huge_ns = static_cast<uint64_t>(huge->shown.mean_ns());
  handling.take_out_huge_ns = static_cast<uint64_t>(huge->taken_out.mean_ns());
  return handling;
}

}  // namespace weightpager::tools
