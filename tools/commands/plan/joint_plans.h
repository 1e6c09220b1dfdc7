// Joint plans of one network or several, as people and machines read them.
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

/// A budget and what is made of it.
struct BudgetedPlan {
  uint64_t budget_bytes = 0;
  plan::JointPlan plan;
};

/// One network's.
struct NetworkPlans {
  std::string cfg_path;
  network::Network network;
  std::string machine;
  uint64_t least_bytes = 0;
  std::string forced_by;
  /// Budgets rise, from the least to what is enough for the fastest; delays fall. Empty where one
  /// budget was asked for.
  std::vector<BudgetedPlan> front;
  /// Of the budget that was asked for, or of this network's share of it.
  std::optional<BudgetedPlan> chosen;
  /// How many plans had a trial run, of which `chosen` was the fastest. 0: none had one.
  size_t tried_plans = 0;
  /// Time was over before everything was tried.
  bool is_cut_short = false;
  /// The same with more memory, to say what that would buy.
  std::optional<BudgetedPlan> with_more;
};

struct JointPlans {
  std::vector<NetworkPlans> networks;
  infer::ReadingCosts reading;
  std::optional<uint64_t> budget_bytes;
};

/// For a terminal.
std::string joint_plans_text(const JointPlans& plans, bool is_explained);
/// One object with `schema_version`; the unit in the key.
std::string joint_plans_json(const JointPlans& plans);
/// One page that needs nothing else: the fronts as plots, where the memory goes, the tables.
std::string joint_plans_html(const JointPlans& plans);

}  // namespace weightpager::tools
