// How long the exact planner takes for GoogLeNet's shapes: 57 convolutions of 57 candidates.
//
//     build/release/bench/selection_bench
//
// The paper's integer program takes 23.8 s for one budget (Wen et al. 2020, table 1).
#include <benchmark/benchmark.h>

#include "runtime/plan/integer_program.h"
#include "runtime/plan/select.h"
#include "tests/plan/googlenet_instance.h"

namespace weightpager::plan {
namespace {

const GoogleNet& golden() {
  static const GoogleNet read = read_googlenet();
  return read;
}

uint64_t tight_budget() {
  return golden().expected["minimum_memory_bytes"].get<uint64_t>() * 23 / 20;
}

void whole_front(benchmark::State& state) {
  for (auto _ : state) {
    const auto front = pareto_front(golden().instance, static_cast<uint64_t>(state.range(0)));
    if (!front) return state.SkipWithError(front.error().message.c_str());
    state.counters["points"] = static_cast<double>(front->size());
  }
}
BENCHMARK(whole_front)->ArgName("quantum")->Arg(1)->Arg(64 << 10)->Unit(benchmark::kMillisecond);

void one_budget(benchmark::State& state) {
  for (auto _ : state) {
    const auto found = fastest(golden().instance, tight_budget());
    if (!found) return state.SkipWithError(found.error().message.c_str());
    state.counters["ms"] = found->time_ns / 1e6;
  }
}
BENCHMARK(one_budget)->Unit(benchmark::kMillisecond);

void one_budget_by_cbc(benchmark::State& state) {
  for (auto _ : state) {
    const auto found = fastest_by_cbc(golden().instance, tight_budget());
    if (!found) return state.SkipWithError(found.error().message.c_str());
    state.counters["ms"] = found->time_ns / 1e6;
  }
}
BENCHMARK(one_budget_by_cbc)->Unit(benchmark::kMillisecond);

void workspace(benchmark::State& state) {
  const Instance instance = with_workspaces(golden().instance);
  for (auto _ : state) {
    const auto found = least_workspace(instance, 1000e6);
    if (!found) return state.SkipWithError(found.error().message.c_str());
    state.counters["bytes"] = static_cast<double>(found->workspace_bytes);
  }
}
BENCHMARK(workspace)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weightpager::plan
