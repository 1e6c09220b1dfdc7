// Trial runs of plans. The tests do not check times, which depend on the machine. They check that
// every plan runs from the right weights, and that no file is left on the disk.
#include "runtime/infer/trial_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "pager/base/units.h"
#include "runtime/plan/joint_plan.h"
#include "runtime/plan/planned_operations.h"
#include "tests/infer/small_network.h"
#include "tests/ops/compute_threads.h"
#include "tests/plan/plausible_profile.h"

namespace weightpager::infer {
namespace {

using ops::compute_threads;
using plan::JointPlan;

class TrialRunTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override {
    make();
    profile_ = plan::plausible_profile(network_, compute_threads);
    auto planner = plan::JointPlanner::make(network_, profile_, {.threads = compute_threads});
    ASSERT_TRUE(planner) << planner.error().message;
    for (const uint64_t budget_bytes : {planner->least_bytes(), planner->most_bytes()}) {
      auto plan = planner->plan(budget_bytes);
      ASSERT_TRUE(plan) << plan.error().message;
      plans_.push_back(std::move(*plan));
    }
  }

  size_t files_beside(const std::string& path) const {
    const auto folder = std::filesystem::path(path).parent_path();
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  plan::Profile profile_;
  std::vector<JointPlan> plans_;
};

TEST_F(TrialRunTest, RunsPlansAndLeavesNothingBehind) {
  for (const std::string& path : {weights_path_, packed_path_}) {
    const size_t files = files_beside(path);
    const auto trial = run_trials(network_, plans_, path, compute_threads);
    ASSERT_TRUE(trial) << trial.error().message;
    EXPECT_LT(trial->fastest, plans_.size());
    EXPECT_GT(trial->delay_ns, 0u);
    EXPECT_EQ(files_beside(path), files);
  }
}

TEST_F(TrialRunTest, DamagedWeightsAreAnErrorAndLeaveNothingBehind) {
  {
    std::fstream file(packed_path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(os_page_bytes + 5);
    file.put('\x7f');
  }
  const size_t files = files_beside(packed_path_);
  const auto trial = run_trials(network_, plans_, packed_path_, compute_threads);
  ASSERT_FALSE(trial);
  EXPECT_NE(trial.error().message.find("checksum"), std::string::npos) << trial.error().message;
  EXPECT_EQ(files_beside(packed_path_), files);
}

TEST_F(TrialRunTest, WhatCannotBePackedBesideTheWeightsIsAnError) {
  const auto trial =
      run_trials(network_, plans_, directory_.path("nowhere/small.weights"), compute_threads);
  ASSERT_FALSE(trial);
  EXPECT_NE(trial.error().message.find("nowhere"), std::string::npos);
}

TEST_F(TrialRunTest, WeightsOfAPlanAreNoWeightsToPlanWith) {
  const std::string planned_path = directory_.path("small.planned");
  auto operations = plan::PlannedOperations::make(network_, plans_.back().choices, compute_threads);
  ASSERT_TRUE(operations) << operations.error().message;
  const auto packed =
      network::pack_weights(network_, plan::packing_for(*operations, weights_path_, planned_path));
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_FALSE(run_trials(network_, plans_, planned_path, compute_threads));
}

}  // namespace
}  // namespace weightpager::infer
