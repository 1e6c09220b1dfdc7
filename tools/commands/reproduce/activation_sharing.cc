// The tables and pictures of Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
// Inference" (2020).
//
// Idea. The networks' tensors follow from their published structure
// (runtime/network/synthetic/published_activations.h), and give the paper's bounds to the byte.
// Each strategy plans them under each rule for equal tensors, which the paper does not state. Cells
// show the paper's value, ours under the first rule, and ours under the best one where that is
// another value.
//
// Cost: a second.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/memory/bounds.h"
#include "runtime/memory/portfolio.h"
#include "runtime/network/synthetic/published_activations.h"
#include "tools/commands/reproduce/activation_sharing_figures.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using memory::bytes_of;
using memory::OffsetPlan;
using memory::SharedObjectsPlan;
using memory::Strategy;
using memory::TensorUsage;

constexpr const char* lower_bound = "Lower Bound";

/// A row of a table: MiB by network.
struct PublishedRow {
  const char* title;
  /// The strategy's name here; empty for the bound and for memory without sharing.
  const char* strategy;
  std::array<double, activation_networks.size()> mib;
};

constexpr std::array<PublishedRow, 7> published_objects = {
    {{"Greedy by Size", "greedy by size", {4.594, 7.178, 6.437, 10.337, 6.347, 0.592}},
     {"Greedy by Size Improved",
      "greedy by size improved",
      {4.594, 6.891, 6.437, 10.337, 6.347, 0.518}},
     {"Greedy by Breadth", "greedy by breadth", {6.125, 6.699, 6.437, 10.676, 8.390, 0.675}},
     {"Greedy, Lee et al.", "greedy (Lee 2019)", {4.594, 8.039, 7.168, 12.703, 6.347, 0.587}},
     {"Min-cost Flow, Lee et al.",
      "minimum-cost flow (Lee 2019)",
      {5.359, 7.513, 8.364, 10.624, 7.359, 0.582}},
     {lower_bound, "", {4.594, 6.604, 6.105, 8.955, 6.347, 0.518}},
     {"Naive", "", {19.248, 26.313, 48.642, 54.010, 28.556, 2.698}}}};

constexpr std::array<PublishedRow, 6> published_offsets = {
    {{"Greedy by Size", "greedy by size", {4.594, 5.742, 4.653, 7.914, 6.271, 0.492}},
     {"Greedy by Breadth", "greedy by breadth", {4.594, 5.742, 4.653, 7.914, 7.359, 0.656}},
     {"Greedy, Lee et al.", "greedy (Lee 2019)", {6.125, 6.508, 4.985, 10.624, 8.362, 0.492}},
     {"Strip Packing, Sekiyama et al.",
      "strip packing (Sekiyama 2018)",
      {4.594, 6.029, 4.321, 7.914, 6.271, 0.533}},
     {lower_bound, "", {4.594, 5.742, 4.320, 7.914, 6.271, 0.492}},
     {"Naive", "", {19.248, 26.313, 48.642, 54.010, 28.556, 2.698}}}};

constexpr const char* no_blazeface =
    "BlazeFace: one convolution of the published network needs more than the paper's lower bound, "
    "so the paper's graph is another one.";
constexpr const char* inception_differs =
    "The paper's graph of Inception v3 is not known: its memory without sharing is another one.";

std::string mib_text(uint64_t bytes) { return fmt::format("{:.3f}", mebibytes(bytes)); }

/// "published / ours", and "(best)" where another tie rule gives less.
template <typename Plan>
std::string cell(double published_mib, const std::vector<Strategy<Plan>>& strategies,
                 const std::string& strategy, memory::Tensors tensors) {
  std::optional<uint64_t> first;
  uint64_t best = UINT64_MAX;
  for (const Strategy<Plan>& it : strategies) {
    if (it.name != strategy) continue;
    const uint64_t bytes = bytes_of(it.plan(tensors));
    if (!first) first = bytes;
    best = std::min(best, bytes);
  }
  std::string text = fmt::format("{:.3f} / {}", published_mib, mib_text(first.value_or(0)));
  if (best < first) text += fmt::format(" ({})", mib_text(best));
  return text;
}

/// What the rows without a strategy have.
struct Limits {
  uint64_t bound_bytes = 0;
  uint64_t unshared_bytes = 0;
  /// Of the smallest plan that is found here.
  uint64_t ours_bytes = 0;
};

template <typename Plan, typename LimitsOf>
Table comparison(const std::string& title, std::span<const PublishedRow> published,
                 const std::vector<Strategy<Plan>>& strategies, LimitsOf limits_of) {
  Table table = {.title = title,
                 .columns = {"strategy"},
                 .rows = {},
                 .note = fmt::format(
                     "MiB, published / ours; in brackets with the best rule for equal tensors. {}",
                     inception_differs)};
  for (const ActivationNetwork& it : activation_networks) table.columns.emplace_back(it.title);
  for (const PublishedRow& row : published) table.rows.push_back({row.title});
  table.rows.push_back({"all strategies and a search (ours)"});
  for (size_t i = 0; i < activation_networks.size(); ++i) {
    const std::string name = activation_networks[i].name;
    const auto tensors =
        name.empty() ? std::vector<TensorUsage>() : network::published_activations(name);
    const Limits limits = name.empty() ? Limits() : limits_of(tensors);
    const auto cell_of = [&](const PublishedRow& row) {
      if (name.empty()) return fmt::format("{:.3f} / -", row.mib[i]);
      if (*row.strategy != '\0') return cell(row.mib[i], strategies, row.strategy, tensors);
      const bool is_bound = row.title == std::string_view(lower_bound);
      return fmt::format("{:.3f} / {}", row.mib[i],
                         mib_text(is_bound ? limits.bound_bytes : limits.unshared_bytes));
    };
    for (size_t r = 0; r < published.size(); ++r) table.rows[r].push_back(cell_of(published[r]));
    table.rows.back().push_back(name.empty() ? "-" : mib_text(limits.ours_bytes));
  }
  return table;
}

Result<Reproduction> shared_objects_table(const ReproduceSettings&) {
  Table table =
      comparison("Shared objects", published_objects, memory::shared_object_strategies(),
                 [](memory::Tensors tensors) {
                   return Limits{memory::shared_objects_lower_bound_bytes(tensors),
                                 memory::unshared_bytes(tensors),
                                 memory::choose_shared_objects(tensors).plan.total_bytes()};
                 });
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {no_blazeface}};
}

Result<Reproduction> offsets_table(const ReproduceSettings&) {
  Table table = comparison(
      "Offsets in one block", published_offsets, memory::offset_strategies(),
      [](memory::Tensors tensors) {
        return Limits{
            memory::offsets_lower_bound_bytes(tensors), memory::unshared_bytes(tensors),
            memory::choose_offsets(tensors, memory::Effort::every_strategy).plan.total_bytes};
      });
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {no_blazeface}};
}

// ---- Placements ----

std::string placement_svg(const std::string& title, memory::Tensors tensors,
                          std::span<const uint64_t> begins) {
  BlockChart chart = {.title = title, .x_label = "operation", .y_label = "MiB", .blocks = {}};
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorUsage& it = tensors[i];
    chart.blocks.push_back(
        {static_cast<double>(it.first_operation), static_cast<double>(it.last_operation) + 1,
         mebibytes(begins[i]), mebibytes(begins[i] + it.size_bytes),
         fmt::format("tensor {}, operations {} to {}, {} MiB", i, it.first_operation,
                     it.last_operation, mib_text(it.size_bytes))});
  }
  return svg_of(chart);
}

/// The placement of one strategy under its first tie rule.
template <typename Plan>
Picture placement(const std::string& picture_name, const ActivationNetwork& network,
                  const Strategy<Plan>& strategy) {
  const auto tensors = network::published_activations(network.name);
  const Plan plan = strategy.plan(tensors);
  return {picture_name, placement_svg(fmt::format("{}, {}: {} MiB", network.title, strategy.name,
                                                  mib_text(bytes_of(plan))),
                                      tensors, begins_of(plan))};
}

template <typename Plan>
const Strategy<Plan>& strategy_named(const std::vector<Strategy<Plan>>& strategies,
                                     const std::string& name) {
  return *std::find_if(strategies.begin(), strategies.end(),
                       [&](const Strategy<Plan>& it) { return it.name == name; });
}

/// The paper's example network is in its pictures alone; this one has many tensors of few sizes.
constexpr const ActivationNetwork& example_network = activation_networks[1];

template <typename Plan>
Reproduction example_placement(const std::string& figure,
                               const std::vector<Strategy<Plan>>& strategies,
                               const std::string& name) {
  return {.tables = {},
          .pictures = {placement(figure, example_network, strategy_named(strategies, name))},
          .lacks = {}};
}

Result<Reproduction> sharing_figure_3(const ReproduceSettings&) {
  return example_placement("figure-3", memory::shared_object_strategies(), "greedy by breadth");
}
Result<Reproduction> sharing_figure_4(const ReproduceSettings&) {
  return example_placement("figure-4", memory::shared_object_strategies(), "greedy by size");
}
Result<Reproduction> sharing_figure_5(const ReproduceSettings&) {
  return example_placement("figure-5", memory::shared_object_strategies(),
                           "greedy by size improved");
}
Result<Reproduction> sharing_figure_6(const ReproduceSettings&) {
  return example_placement("figure-6", memory::offset_strategies(), "greedy by size");
}

std::string file_word(const std::string& text) {
  std::string word;
  for (const char letter : text) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
    if (is_plain) word += letter;
    if (letter == ' ' && !word.empty() && word.back() != '-') word += '-';
  }
  return word;
}

template <typename Plan>
void add_placements(Reproduction& made, const std::string& kind, const ActivationNetwork& network,
                    const std::vector<Strategy<Plan>>& strategies) {
  std::string before;
  for (const Strategy<Plan>& it : strategies) {
    if (it.name == before) continue;
    before = it.name;
    made.pictures.push_back(placement(
        fmt::format("placements-{}-{}-{}", network.name, kind, file_word(it.name)), network, it));
  }
}

Result<Reproduction> placements(const ReproduceSettings& settings) {
  Reproduction made;
  for (const ActivationNetwork& it : activation_networks) {
    if (*it.name == '\0') continue;
    add_placements(made, "objects", it, memory::shared_object_strategies());
    add_placements(made, "offsets", it, memory::offset_strategies());
    if (settings.is_quick) break;
  }
  return made;
}

}  // namespace

std::vector<uint64_t> begins_of(const OffsetPlan& plan) { return plan.offset_bytes; }
std::vector<uint64_t> begins_of(const SharedObjectsPlan& plan) {
  std::vector<uint64_t> object_begins;
  uint64_t end = 0;
  for (const uint64_t bytes : plan.object_bytes) {
    object_begins.push_back(end);
    end += bytes;
  }
  std::vector<uint64_t> begins;
  for (const uint32_t object : plan.object) begins.push_back(object_begins[object]);
  return begins;
}

Paper activation_sharing_paper() {
  return {.name = "activation-sharing",
          .title = "Efficient Memory Management for Deep Neural Net Inference",
          .figures = {{"figure-3", "shared objects, greedy by breadth", sharing_figure_3},
                      {"figure-4", "shared objects, greedy by size", sharing_figure_4},
                      {"figure-5", "shared objects, greedy by size improved", sharing_figure_5},
                      {"figure-6", "offsets, greedy by size", sharing_figure_6},
                      {"table-1", "shared objects, all strategies", shared_objects_table},
                      {"table-2", "offsets, all strategies", offsets_table},
                      {"placements", "each strategy on each network", placements},
                      {"dynamic", "sizes that are known late", sharing_dynamic},
                      {"caches", "the time that caches save, this machine", sharing_caches}}};
}

}  // namespace weightpager::tools
