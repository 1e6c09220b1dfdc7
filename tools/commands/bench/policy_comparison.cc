#include "tools/commands/bench/policy_comparison.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "pager/base/assert.h"
#include "pager/policy/baselines/belady.h"
#include "pager/simulate/engine_threads.h"

namespace weightpager::tools {

using simulate::PassCounts;
using simulate::Trace;

PassFigures figures_of(const std::vector<PassCounts>& passes, size_t warm_up_passes,
                       uint64_t chunk_bytes) {
  WP_ASSERT(passes.size() > warm_up_passes);
  std::vector<uint64_t> times_ns;
  PassFigures figures;
  const auto counted = std::span(passes).subspan(warm_up_passes);
  for (const PassCounts& pass : counted) {
    times_ns.push_back(pass.time_ns);
    figures.read_bytes += pass.reads * chunk_bytes;
  }
  std::sort(times_ns.begin(), times_ns.end());
  figures.median_ns = times_ns[times_ns.size() / 2];
  figures.shortest_ns = times_ns.front();
  figures.longest_ns = times_ns.back();
  figures.read_bytes /= times_ns.size();
  for (const auto& [key, count] : named_counts) {
    for (const PassCounts& pass : counted) figures.mean.*count += pass.*count;
    figures.mean.*count /= times_ns.size();
  }
  return figures;
}

std::optional<double> PolicyRun::deviation() const {
  if (!live || !simulated) return std::nullopt;
  return static_cast<double>(simulated->median_ns) / static_cast<double>(live->median_ns) - 1;
}

std::vector<double> deviations(const PolicyComparison& comparison) {
  std::vector<double> shares;
  for (const WindowRuns& window : comparison.windows) {
    for (const PolicyRun& run : window.runs) {
      if (const auto share = run.deviation()) shares.push_back(std::abs(*share));
    }
  }
  std::sort(shares.begin(), shares.end());
  return shares;
}

PolicyComparison simulate_policies(const Trace& trace, const Machine& machine,
                                   const std::vector<uint32_t>& windows_chunks,
                                   const std::vector<std::string>& policies, size_t warm_up_passes,
                                   uint64_t seed) {
  PolicyComparison comparison{.name = trace.name,
                              .model_bytes = trace.model_bytes(),
                              .chunk_bytes = trace.chunk_bytes,
                              .passes = trace.pass_begins.size(),
                              .warm_up_passes = warm_up_passes,
                              .compute_ns = 0,
                              .machine = machine,
                              .windows = {},
                              .remarks = {}};
  const uint64_t first = trace.pass_begins[warm_up_passes];
  const size_t passes = trace.pass_begins.size() - warm_up_passes;
  const auto undisturbed_ns = simulate::undisturbed_passes_ns(trace);
  for (const uint64_t pass_ns : std::span(undisturbed_ns).subspan(warm_up_passes)) {
    comparison.compute_ns += pass_ns;
  }
  comparison.compute_ns /= passes;

  const std::vector<policy::ChunkId> touched = trace.touched_chunks();
  for (size_t i = 0; i < windows_chunks.size(); ++i) {
    const uint32_t window_chunks = windows_chunks[i];
    const auto bytes_a_pass = [&](uint64_t reads) { return reads * trace.chunk_bytes / passes; };
    WindowRuns window{
        .window_bytes = window_chunks * trace.chunk_bytes,
        .least_read_bytes =
            bytes_a_pass(policy::least_reads(touched, trace.chunks, window_chunks, first)),
        .fixed_set_read_bytes =
            bytes_a_pass(policy::reads_of_fixed_set(touched, trace.chunks, window_chunks, first)),
        .learned_set_read_bytes =
            bytes_a_pass(policy::reads_of_learned_set(touched, trace.chunks, window_chunks, first)),
        .least_ns = 0,
        .runs = {}};
    const double read_ns =
        static_cast<double>(window.least_read_bytes) / machine.disk.bytes_per_s * 1e9;
    window.least_ns = std::max(comparison.compute_ns, static_cast<uint64_t>(read_ns));
    for (const std::string& policy : policies) {
      simulate::SimulatorOptions options;
      options.policy = policy;
      options.window_chunks = window_chunks;
      options.disk = machine.disk;
      options.handling = machine.handling;
      options.seed = seed;
      if (i == windows_chunks.size() / 2) options.timeline_pass = trace.pass_begins.size() - 1;
      auto run = simulate::simulate(trace, options);
      WP_ASSERT(run.has_value());
      window.runs.push_back(
          {.policy = policy,
           .simulated = figures_of(run->passes, warm_up_passes, trace.chunk_bytes),
           .live = {},
           .timeline = std::move(run->timeline)});
    }
    comparison.windows.push_back(std::move(window));
  }
  return comparison;
}

}  // namespace weightpager::tools
