// Joint plans of one network or several: as text, as JSON and as HTML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/infer/reading_costs.h"
#include "runtime/network/network.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::tools {

/// A budget and the plan for it.
struct BudgetedPlan {
  uint64_t budget_bytes = 0;
  plan::JointPlan plan;
};

/// The plans of one network.
struct NetworkPlans {
  std::string cfg_path;
  network::Network network;
  std::string machine;
  uint64_t least_bytes = 0;
  std::string forced_by;
  /// Plans with rising budgets and falling delays, from the least budget to the one that is enough
  /// for the fastest plan. Empty if a single budget was asked for.
  std::vector<BudgetedPlan> front;
  /// The plan for the budget that was asked for, or for this network's share of it.
  std::optional<BudgetedPlan> chosen;
  /// So many plans had a trial run, and `chosen` was the fastest of them. 0: none had one.
  size_t tried_plans = 0;
  /// The time limit ended the search before everything was tried.
  bool is_cut_short = false;
  /// The plan for a larger budget, to show what more memory would buy.
  std::optional<BudgetedPlan> with_more;
};

struct JointPlans {
  std::vector<NetworkPlans> networks;
  infer::ReadingCosts reading;
  std::optional<uint64_t> budget_bytes;
};

/// The plans as text for a terminal.
std::string joint_plans_text(const JointPlans& plans, bool is_explained);
/// One object with `schema_version`; the unit in the key.
std::string joint_plans_json(const JointPlans& plans);
/// One page that needs no other file: the fronts as plots, where the memory goes, the tables.
std::string joint_plans_html(const JointPlans& plans);

}  // namespace weightpager::tools
