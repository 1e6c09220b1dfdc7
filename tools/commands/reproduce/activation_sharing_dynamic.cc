// Sizes that are known late: what planning in steps takes beyond the plan for which all sizes are
// known.
//
// The paper's last section says how such tensors are placed, and has no values. Here a seeded part
// of each network's tensors is known as late as possible: after the operation before the one that
// makes them. The static plans that they are compared with are optima: offsets meet the bound, and
// shared objects are proved by search.
//
// Cost: some seconds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "runtime/memory/dynamic_plan.h"
#include "runtime/memory/portfolio.h"
#include "runtime/network/synthetic/published_activations.h"
#include "tools/commands/reproduce/activation_sharing_figures.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using memory::StepRule;

constexpr std::array<uint32_t, 5> late_percents = {10, 25, 50, 75, 100};

/// As late as possible, for about so many of a hundred tensors.
std::vector<std::optional<uint32_t>> late_sizes(memory::Tensors tensors, uint32_t percent,
                                                uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::optional<uint32_t>> known_after;
  for (const memory::TensorUsage& it : tensors) {
    const bool is_late = random() % 100 < percent && it.first_operation > 0;
    known_after.push_back(is_late ? std::optional(it.first_operation - 1) : std::nullopt);
  }
  return known_after;
}

/// Of several draws of tensors: percent beyond the static plan.
struct Beyond {
  double mean = 0;
  double most = 0;
};

/// By rule, in the order of memory::step_rules.
using BeyondByRule = std::vector<Beyond>;

template <typename PlanSteps>
BeyondByRule beyond_static(memory::Tensors tensors, uint64_t static_bytes, uint32_t percent,
                           uint32_t seeds, PlanSteps plan_steps) {
  BeyondByRule found;
  for (const StepRule rule : memory::step_rules) {
    Beyond beyond;
    for (uint32_t seed = 1; seed <= seeds; ++seed) {
      const auto planned =
          plan_steps(tensors, late_sizes(tensors, percent, seed), rule, TimeLimit());
      const double more =
          100 *
          (static_cast<double>(bytes_of(planned.plan)) / static_cast<double>(static_bytes) - 1);
      beyond.mean += more / seeds;
      beyond.most = std::max(beyond.most, more);
    }
    found.push_back(beyond);
  }
  return found;
}

/// One kind of plans: a table of all networks, and a picture of their mean.
template <typename Choose, typename PlanSteps>
void add_kind(Reproduction& made, const std::string& kind, uint32_t seeds, Choose choose,
              PlanSteps plan_steps) {
  Table table = {
      .title = fmt::format("{}: beyond the plan for which all sizes are known, in "
                           "percent: mean (most)",
                           kind),
      .columns = {"network", "all known, MiB", "known late, %"},
      .rows = {},
      .note = fmt::format("{} draws of late tensors for each row; a late size is known after the "
                          "operation before the tensor's first one. Rules: docs/reference/"
                          "plan_activations.md.",
                          seeds)};
  LineChart chart = {
      .title = fmt::format("{} where sizes are known late: mean of the networks", kind),
      .x_label = "tensors whose size is known late, %",
      .y_label = "beyond the static plan, %",
      .lines = {}};
  for (const StepRule rule : memory::step_rules) {
    table.columns.emplace_back(memory::name(rule));
    chart.lines.push_back({memory::name(rule), {{0, 0}}});
  }
  std::map<uint32_t, std::vector<double>> sums;  // by percent, then by rule
  double networks = 0;
  for (const ActivationNetwork& network : activation_networks) {
    if (*network.name == '\0') continue;
    ++networks;
    const auto tensors = network::published_activations(network.name);
    const uint64_t static_bytes = choose(tensors);
    for (const uint32_t percent : late_percents) {
      std::vector<std::string> row = {network.title, fmt::format("{:.3f}", mebibytes(static_bytes)),
                                      fmt::to_string(percent)};
      const BeyondByRule found = beyond_static(tensors, static_bytes, percent, seeds, plan_steps);
      auto& sum = sums.try_emplace(percent, found.size()).first->second;
      for (size_t i = 0; i < found.size(); ++i) {
        row.push_back(fmt::format("{:.1f} ({:.1f})", found[i].mean, found[i].most));
        sum[i] += found[i].mean;
      }
      table.rows.push_back(std::move(row));
    }
  }
  for (const auto& [percent, sum] : sums) {
    for (size_t i = 0; i < sum.size(); ++i) {
      chart.lines[i].points.emplace_back(percent, sum[i] / networks);
    }
  }
  // The paper's way is what the others are compared with: it is drawn over them.
  chart.lines.front().is_dashed = true;
  std::rotate(chart.lines.begin(), chart.lines.begin() + 1, chart.lines.end());
  made.tables.push_back(std::move(table));
  made.pictures.push_back(
      {fmt::format("dynamic-{}", kind == "Offsets" ? "offsets" : "objects"), svg_of(chart)});
}

}  // namespace

Result<Reproduction> sharing_dynamic(const ReproduceSettings& settings) {
  const uint32_t seeds = settings.is_quick ? 2 : 10;
  Reproduction made;
  add_kind(
      made, "Offsets", seeds,
      [](memory::Tensors tensors) {
        return memory::choose_offsets(tensors, memory::Effort::until_bound).plan.total_bytes;
      },
      memory::plan_offsets_in_steps);
  add_kind(
      made, "Shared objects", seeds,
      [](memory::Tensors tensors) {
        return memory::choose_shared_objects(tensors).plan.total_bytes();
      },
      memory::share_objects_in_steps);
  return made;
}

}  // namespace weightpager::tools
