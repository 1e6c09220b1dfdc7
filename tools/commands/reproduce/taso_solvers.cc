// Table 1 of the TASO paper: how long a solver takes for one budget.
//
// The paper's solver is an integer program in PuLP. Here the exact planner is a dynamic programme
// over series-parallel networks, and CBC solves the same question where the build has it. No other
// integer programming solver is tried: CBC only has what the planner cannot reduce, and a solver
// that were ten times as fast would still be behind the planner.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "pager/base/time_limit.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/select.h"
#include "tools/commands/reproduce/taso_figures.h"
#include "tools/commands/reproduce/taso_networks.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::taso {
namespace {

using plan::Instance;
using plan::Selection;

struct PublishedSolving {
  std::string_view network;
  int variables;
  double seconds;
};
constexpr std::array<PublishedSolving, 4> published_solving = {{{"alexnet", 456, 3.373},
                                                                {"vgg16", 741, 5.259},
                                                                {"squeezenet", 1710, 8.835},
                                                                {"googlenet", 3990, 23.84}}};

constexpr double cbc_seconds_max = 20;

template <typename Found>
struct Timed {
  Result<Found> found;
  double seconds = 0;
};

template <typename Solve>
auto timed(Solve solve) {
  const auto begin = std::chrono::steady_clock::now();
  auto found = solve();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return Timed<typename decltype(found)::value_type>{std::move(found), took.count()};
}

/// The paper's conditional variables: a convolution's candidates.
size_t variables_of(const MeasuredNetwork& it) {
  size_t count = 0;
  for (const auto& kinds : it.kinds) {
    count += static_cast<size_t>(
        std::count_if(kinds.begin(), kinds.end(), [](const auto& kind) { return !kind.empty(); }));
  }
  return count;
}

/// Seconds, or why there are none.
std::string cbc_words(const Instance& instance, uint64_t budget, const Selection& best) {
  if (!plan::has_integer_programming()) return "not in this build";
  const TimeLimit limit(cbc_seconds_max);
  const auto cbc = timed([&] { return plan::fastest_by_cbc(instance, budget, limit); });
  if (!cbc.found) return "failed";
  if (limit.is_over()) return fmt::format("more than {}", cbc_seconds_max);
  constexpr double rounding = 1e-6;  // of CBC's arithmetic
  const bool is_same = std::abs(cbc.found->time_ns / best.time_ns - 1) < rounding;
  return fmt::format("{:.4f}{}", cbc.seconds, is_same ? "" : " (another optimum)");
}

/// Variables and seconds; the paper leaves one network out.
std::string published_words(const NamedNetwork& network) {
  for (const PublishedSolving& it : published_solving) {
    if (it.network == network.name) return fmt::format("{}, {}", it.variables, it.seconds);
  }
  return "-";
}

Status add_solving(Table& table, const NamedNetwork& network, const ReproduceSettings& settings) {
  const auto it = measured(network, settings);
  if (!it) return tl::make_unexpected(it.error());
  const Instance& instance = (*it)->whole_network;
  const auto front = timed([&] { return plan::pareto_front(instance); });
  if (!front.found) return tl::make_unexpected(front.found.error());
  const uint64_t budget =
      std::midpoint(front.found->front().memory_bytes(), front.found->back().memory_bytes());
  const auto one = timed([&] { return plan::fastest(instance, budget); });
  if (!one.found) return tl::make_unexpected(one.found.error());
  table.rows.push_back(
      {(*it)->title, published_words(network), fmt::format("{}", variables_of(**it)),
       fmt::format("{:.5f}", one.seconds), fmt::format("{:.5f}", front.seconds),
       fmt::format("{}", front.found->size()), cbc_words(instance, budget, *one.found)});
  return {};
}

}  // namespace

Result<Reproduction> table_1(const ReproduceSettings& settings) {
  Table table = {
      .title = "Seconds to find a selection, this machine",
      .columns = {"network", "published: variables, seconds", "variables", "one budget, s",
                  "whole front, s", "its points", "one budget by CBC, s"},
      .rows = {},
      .note =
          "Published: one budget, by integer programming on an Intel Core i5. Variables are the "
          "convolutions' candidates, which are more on the paper's board. The budget is half way "
          "between the least memory and that of the fastest selection."};
  for (const NamedNetwork& it : networks_of(settings)) {
    if (auto added = add_solving(table, it, settings); !added)
      return forward_error(std::move(added));
  }
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {}};
}

}  // namespace weightpager::tools::taso
