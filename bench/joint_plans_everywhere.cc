// Joint plans of every network that `model make --net` knows, at 20 budgets each, against planning
// one thing after the other: never worse, how much better, how near to the bound, how long it
// takes.
//
// Nothing is measured: candidates are this machine's and those of AVX-512, at the made-up speeds
// that tests use, so that a run needs minutes instead of an hour, and every machine has as much to
// plan. docs/explanation/planning.md has what came out; bench/joint_plans.py runs real plans.
//
//     build/release/bench/joint_plans_everywhere [NETWORK…]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "pager/base/median.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/plan/joint_plan.h"
#include "tests/plan/plausible_profile.h"

namespace {

using namespace weightpager;
using Clock = std::chrono::steady_clock;

constexpr int budgets = 20;
constexpr int threads = 2;

// Whether no plan was worse.
bool look_at(const std::string& name) {
  const auto network = network::parse_network(*network::make_description(name), name);
  if (!network) return false;
  const plan::Profile profile =
      plan::with_avx512(*network, plan::plausible_profile(*network, threads));
  auto planner = plan::JointPlanner::make(*network, profile, {.threads = threads});
  if (!planner) {
    fmt::print("{}: {}\n", name, planner.error().message);
    return true;
  }
  const auto least = static_cast<double>(planner->least_bytes());
  const double ratio = static_cast<double>(planner->most_bytes()) / least;
  std::vector<double> faster, above_bound, seconds;
  bool is_never_worse = true;
  for (int i = 0; i < budgets; ++i) {
    const double share = static_cast<double>(i) / (budgets - 1);
    const uint64_t budget_bytes =
        i == 0 ? planner->least_bytes() : static_cast<uint64_t>(least * std::pow(ratio, share));
    const auto started = Clock::now();
    const auto plan = planner->plan(budget_bytes);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - started).count());
    if (!plan) {
      fmt::print("{}: {}\n", name, plan.error().message);
      return false;
    }
    uint64_t best_ns = UINT64_MAX;
    for (const auto& it : planner->plans_one_after_another(budget_bytes)) {
      best_ns = std::min(best_ns, it.delay_ns);
    }
    const auto delay_ns = static_cast<double>(plan->delay_ns);
    is_never_worse &= plan->delay_ns <= best_ns && plan->memory_bytes() <= budget_bytes;
    faster.push_back(static_cast<double>(best_ns) / delay_ns);
    above_bound.push_back(100 * (delay_ns / static_cast<double>(plan->bound_ns) - 1));
  }
  fmt::print(
      "| {} | {:.1f} to {:.1f} | {} | {:.2f}× | {:.2f}× | {:.1f} % | {:.1f} % | {:.2f} | {:.2f} "
      "|\n",
      name, least / (1 << 20), least * ratio / (1 << 20), is_never_worse ? "yes" : "NO",
      median(faster), *std::max_element(faster.begin(), faster.end()), median(above_bound),
      *std::max_element(above_bound.begin(), above_bound.end()), median(seconds),
      *std::max_element(seconds.begin(), seconds.end()));
  std::fflush(stdout);
  return is_never_worse;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = network::described_networks();
  fmt::print(
      "| network | budgets, MiB | never worse | faster, median | at most | above the bound, median "
      "| at most | s a plan, median | at most |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  bool is_never_worse = true;
  for (const std::string& name : names) is_never_worse &= look_at(name);
  return is_never_worse ? 0 : 1;
}
