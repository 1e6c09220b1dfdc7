// How many events a second the simulator works off, by policy: a dense model of 16 GiB, 25 % of it
// in the window; for a mixture of experts the same.
//
//     build/release/bench/simulate_bench
#include <benchmark/benchmark.h>

#include "pager/simulate/make_trace.h"
#include "pager/simulate/simulator.h"

namespace weightpager::simulate {
namespace {

Trace dense() {
  return make_trace(model_of({.layers = 32, .dense_bytes = 512 * MiB}), {.passes = 6}, "dense");
}

Trace mixture() {
  return make_trace(model_of({.layers = 16,
                              .dense_bytes = 64 * MiB,
                              .experts = 32,
                              .experts_used = 4,
                              .slab_bytes = 8 * MiB}),
                    {.passes = 30}, "mixture");
}

void simulate_trace(benchmark::State& state, const Trace& trace, const std::string& policy) {
  SimulatorOptions options;
  options.policy = policy;
  options.window_chunks = trace.chunks / 4;
  options.disk = disk_presets().front();
  uint64_t events = 0;
  for (auto _ : state) {
    const auto run = simulate(trace, options);
    if (!run) return state.SkipWithError(run.error().message.c_str());
    events += run->events;
  }
  state.counters["events"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

const int registered = [] {
  static const Trace traces[] = {dense(), mixture()};
  for (const Trace& trace : traces) {
    for (const policy::NamedPolicy& policy : policy::named_policies()) {
      const std::string name(policy.name);
      benchmark::RegisterBenchmark((trace.name + "/" + name).c_str(), simulate_trace, trace, name)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace weightpager::simulate
