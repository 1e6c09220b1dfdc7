// Beyond the paper: for its applications, what the best blocks, joint shares and windows add.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "pager/base/units.h"
#include "runtime/budget/lookup_table.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/serve/demand.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/commands/reproduce/swapnet_timeline.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::swapnet {
namespace {

using budget::Claim;
using budget::Shares;
using budget::StepFunction;

/// A network with its delay by budget in the best blocks, and in windows of layers, tiles and pins.
struct Choices {
  PaperNetwork network;
  StepFunction blocks;
  serve::NetworkDemand windows;
};

/// The best blocks at budgets each the same factor above the one before.
StepFunction block_steps(const PaperNetwork& network, size_t budgets) {
  const auto least_bytes = static_cast<double>(budget::least_budget_bytes(network.costs));
  const double ratio = static_cast<double>(network.size_bytes()) / least_bytes;
  std::vector<budget::Step> steps;
  for (size_t i = 0; i < budgets; ++i) {
    const double factor =
        std::pow(ratio, static_cast<double>(i) / static_cast<double>(budgets - 1));
    const auto bytes = static_cast<uint64_t>(std::ceil(least_bytes * factor));
    const auto plan = budget::plan_blocks(network.costs, bytes);
    if (plan && (steps.empty() || plan->delay_ns < steps.back().delay_ns))
      steps.push_back({bytes, plan->delay_ns});
  }
  return StepFunction(std::move(steps));
}

/// By the same delay model: a tile is read and computed at the cost of its part of the layer.
serve::NetworkDemand window_demand(const PaperNetwork& network) {
  std::vector<pipeline::UnitCosts> costs;
  for (const network::Layer& layer : network.network.layers) {
    budget::Work work = infer::work_of(layer);
    work.size_bytes = round_up(work.size_bytes, os_page_bytes);
    const budget::LayerCosts it = network.delays.layer_costs(work);
    costs.push_back(
        {.size_bytes = it.size_bytes, .read_ns = it.read_ns, .kernel_ns = it.kernel_ns});
  }
  return serve::demand_of(network.network, network.known.title, {}, costs, {});
}

Result<std::map<PaperModel, Choices>> choices_of_all(bool is_quick) {
  std::map<PaperModel, Choices> all;
  using enum PaperModel;
  for (const PaperModel model : {yolov3, fcn, vgg19, resnet101}) {
    auto network = paper_network(model);
    if (!network) return forward_error(std::move(network));
    StepFunction blocks = block_steps(*network, is_quick ? 6 : 24);
    serve::NetworkDemand windows = window_demand(*network);
    all.emplace(model, Choices{std::move(*network), std::move(blocks), std::move(windows)});
  }
  return all;
}

/// One application with one budget for all its networks.
class Comparison {
 public:
  Comparison(const PublishedApplication& application, const std::map<PaperModel, Choices>& choices,
             double part)
      : application_(application),
        budget_bytes_(static_cast<uint64_t>(application.budget_mb * part) * mib),
        part_(part) {
    for (const PublishedTask& task : application.tasks)
      networks_.push_back(&choices.at(task.model));
  }

  void add_rows(Table& table) const {
    add(table, "SwapNet's shares and cuts", by_published_budgets(true));
    add(table, "best blocks, SwapNet's shares", by_published_budgets(false));
    add(table, "best blocks, Eq. (1)",
        by_blocks(budget::share_by_score(block_claims(), budget_bytes_)));
    add(table, "best blocks, joint shares", by_blocks(joint(block_claims(), true)));
    add(table, "windows, joint shares", by_windows(joint(window_claims(), false)));
  }

 private:
  using Slowdowns = std::optional<std::vector<double>>;  // nullopt: the budget is too small

  Claim with_weight(Claim claim, const Choices& it) const {
    claim.latency_ns = it.network.in_memory_ns();
    claim.weight = serve::delay_weight(serve::SharingGoal::mean_slowdown, 1, 0, claim.latency_ns);
    return claim;
  }

  std::vector<Claim> block_claims() const {
    std::vector<Claim> claims;
    for (const Choices* it : networks_) {
      claims.push_back(with_weight({.name = it->network.known.title,
                                    .model_bytes = it->network.size_bytes(),
                                    .least_bytes = it->blocks.least_bytes()},
                                   *it));
    }
    return claims;
  }

  std::vector<Claim> window_claims() const {
    std::vector<Claim> claims;
    for (const Choices* it : networks_) claims.push_back(with_weight(it->windows.claim, *it));
    return claims;
  }

  Result<Shares> joint(const std::vector<Claim>& claims, bool is_by_blocks) const {
    std::vector<StepFunction> steps;
    for (const Choices* it : networks_) {
      steps.push_back(is_by_blocks ? it->blocks : it->windows.delay_steps);
    }
    auto shares = budget::share_jointly(claims, steps, budget_bytes_,
                                        serve::goal_of_delays(serve::SharingGoal::mean_slowdown));
    if (!shares) return forward_error(std::move(shares));
    return std::move(shares->shares);
  }

  static double slowdown(const Choices& it, uint64_t delay_ns) {
    return static_cast<double>(delay_ns) / static_cast<double>(it.network.in_memory_ns());
  }

  Slowdowns by_published_budgets(bool is_by_table) const {
    std::vector<double> slowdowns;
    for (size_t i = 0; i < networks_.size(); ++i) {
      const auto bytes = static_cast<uint64_t>(application_.tasks[i].budget_mb * part_) * mib;
      const budget::BlockedNetwork& costs = networks_[i]->network.costs;
      const auto plan =
          is_by_table ? budget::plan_by_table(costs, bytes) : budget::plan_blocks(costs, bytes);
      if (!plan) return std::nullopt;
      slowdowns.push_back(slowdown(*networks_[i], plan->delay_ns));
    }
    return slowdowns;
  }

  Slowdowns by_blocks(const Result<Shares>& shares) const {
    if (!shares) return std::nullopt;
    std::vector<double> slowdowns;
    for (size_t i = 0; i < networks_.size(); ++i) {
      const auto plan = budget::plan_blocks(networks_[i]->network.costs, (*shares)[i]);
      if (!plan) return std::nullopt;
      slowdowns.push_back(slowdown(*networks_[i], plan->delay_ns));
    }
    return slowdowns;
  }

  Slowdowns by_windows(const Result<Shares>& shares) const {
    if (!shares) return std::nullopt;
    std::vector<double> slowdowns;
    for (size_t i = 0; i < networks_.size(); ++i) {
      const serve::NetworkDemand& demand = networks_[i]->windows;
      slowdowns.push_back(static_cast<double>(demand.delay_steps.delay_ns((*shares)[i])) /
                          static_cast<double>(demand.claim.latency_ns));
    }
    return slowdowns;
  }

  void add(Table& table, const std::string& name, const Slowdowns& slowdowns) const {
    std::string mean = "-", largest = "-";
    if (slowdowns) {
      double sum = 0;
      for (const double it : *slowdowns) sum += it;
      mean = fmt::format("{:.1f}", 100 * (sum / static_cast<double>(slowdowns->size()) - 1));
      largest = fmt::format("{:.1f}",
                            100 * (*std::max_element(slowdowns->begin(), slowdowns->end()) - 1));
    }
    table.rows.push_back({application_.title, fmt::format("{:.0f}", mebibytes(budget_bytes_)), name,
                          std::move(mean), std::move(largest)});
  }

  const PublishedApplication& application_;
  uint64_t budget_bytes_;
  double part_;
  std::vector<const Choices*> networks_;
};

}  // namespace

Result<Reproduction> beyond(const ReproduceSettings& settings) {
  const auto choices = choices_of_all(settings.is_quick);
  if (!choices) return tl::make_unexpected(choices.error());
  Table table = {
      .title = "Time beyond everything in memory, at the published budget and at half of it",
      .columns = {"application", "MiB", "plan", "mean, %", "largest, %"},
      .rows = {},
      .note =
          std::string("-: the budget is too small for that. Each network has the disk to "
                      "itself; every inference in blocks has its first read, and windows keep "
                      "what is pinned from one to the next. Joint shares make the mean small. ") +
          model_note};
  for (const PublishedApplication& application : applications()) {
    for (const double part : {1.0, 0.5}) Comparison(application, *choices, part).add_rows(table);
  }
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {}};
}

}  // namespace weightpager::tools::swapnet
