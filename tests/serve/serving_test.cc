// Networks side by side: each computes the bits that it computes alone, and their memory is within
// the budget, whatever happens to it.
#include "runtime/serve/serving.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "pager/base/units.h"
#include "runtime/infer/layer_measurement.h"
#include "tests/infer/small_network.h"

namespace weightpager::serve {
namespace {

using infer::Inference;

/// Together windows of this have less than one network's weights: however it is divided, each reads
/// in every pass.
constexpr uint64_t too_small_for_one_bytes = MiB + MiB / 2;

/// Networks that compute side by side have more threads than there are processors. If a network had
/// two, each would wait at the end of each layer until the other got its turn.
constexpr int threads_of_each = 1;

class ServingTest : public testing::Test, protected infer::SmallNetwork {
 protected:
  void SetUp() override {
    make();
    auto alone = Inference::open(
        network_, packed_path_,
        {.window = {.pipeline = pipeline::Pipeline::preload}, .threads = threads_of_each});
    ASSERT_TRUE(alone) << alone.error().message;
    input_ = infer::some_input(network_);  // what networks are served
    expected_ = output_of(**alone);
    ASSERT_NE(*std::min_element(expected_.begin(), expected_.end()),
              *std::max_element(expected_.begin(), expected_.end()));
    fixed_bytes_ = (*alone)->activation_bytes() + (*alone)->scratch_bytes();
  }

  NetworkRequest request(const char* name, uint64_t period_ns = 0) const {
    return {.name = name,
            .network = network_,
            .weights_path = packed_path_,
            .period_ns = period_ns,
            .threads = threads_of_each};
  }

  Result<std::unique_ptr<Serving>> serve(std::vector<NetworkRequest> requests,
                                         uint64_t windows_bytes, bool is_by_blocks = false) {
    ServingOptions options = {.budget_bytes = windows_bytes + requests.size() * fixed_bytes_,
                              .is_by_blocks = is_by_blocks};
    options.on_inference = [this](uint32_t, const Inference& inference) {
      if (last_output(inference) != expected_) ++wrong_;
      ++right_or_wrong_;
    };
    return Serving::start(std::move(requests), options);
  }

  void wait_for_inferences(const Serving& serving, size_t each) const {
    for (;;) {
      const ServingState state = serving.state();
      const bool is_done =
          std::all_of(state.networks.begin(), state.networks.end(),
                      [&](const NetworkState& it) { return it.inferences >= each; });
      if (is_done) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::vector<float> expected_;
  uint64_t fixed_bytes_ = 0;
  std::atomic<int> wrong_ = 0;
  std::atomic<int> right_or_wrong_ = 0;
};

TEST_F(ServingTest, EachComputesWhatItComputesAlone) {
  auto serving = serve({request("a"), request("b"), request("c")}, too_small_for_one_bytes);
  ASSERT_TRUE(serving) << serving.error().message;
  wait_for_inferences(**serving, 10);
  ASSERT_TRUE((*serving)->wait(0));
  const ServingState state = (*serving)->state();
  EXPECT_EQ(wrong_, 0);
  EXPECT_GE(right_or_wrong_, 30);
  EXPECT_LE(state.peak_bytes, state.budget_bytes);
  for (const NetworkState& it : state.networks) {
    EXPECT_EQ(it.held_bytes, it.share_bytes);
    EXPECT_GE(it.share_bytes, it.least_window_bytes);
    EXPECT_EQ(it.fixed_bytes, fixed_bytes_);
    EXPECT_GT(it.read_bytes, it.weights_bytes);
  }
}

TEST_F(ServingTest, WithRoomForAllNothingIsReadTwice) {
  auto serving = serve({request("a"), request("b")}, 8 * MiB);
  ASSERT_TRUE(serving) << serving.error().message;
  wait_for_inferences(**serving, 3);
  const ServingState before = (*serving)->state();
  wait_for_inferences(**serving, before.networks[0].inferences + 5);
  const ServingState after = (*serving)->state();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(after.networks[i].read_bytes, before.networks[i].read_bytes);
    EXPECT_EQ(after.networks[i].share_bytes, after.networks[i].weights_bytes);
  }
}

class FollowingTest : public ServingTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(By, FollowingTest, testing::Bool(),
                         [](const auto& it) { return it.param ? "blocks" : "window"; });

TEST_P(FollowingTest, WindowsFollowTheBudgetAndNeverExceedIt) {
  auto serving = serve({request("a"), request("b"), request("c")}, 6 * MiB, GetParam());
  ASSERT_TRUE(serving) << serving.error().message;
  const uint64_t fixed_bytes = 3 * fixed_bytes_;
  const uint64_t least_bytes = (*serving)->state().least_budget_bytes - fixed_bytes;
  ASSERT_LT(least_bytes, 3 * MiB);
  for (const uint64_t windows_bytes : {6 * MiB, 3 * MiB, 4 * MiB, least_bytes, 6 * MiB, 3 * MiB}) {
    ASSERT_TRUE((*serving)->set_budget(fixed_bytes + windows_bytes));
    const auto follow = [&] {
      const ServingState state = (*serving)->state();
      uint64_t held_bytes = 0;
      bool has_followed = true;
      for (const NetworkState& it : state.networks) {
        held_bytes += it.held_bytes;
        has_followed &= it.held_bytes == it.share_bytes;
      }
      EXPECT_LE(fixed_bytes + held_bytes, fixed_bytes + 6 * MiB);
      if (has_followed) {
        EXPECT_LE(held_bytes, windows_bytes);
      }
      return has_followed;
    };
    while (!follow()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    wait_for_inferences(**serving, (*serving)->state().networks[0].inferences + 2);
  }
  EXPECT_EQ(wrong_, 0);
  EXPECT_LE((*serving)->state().peak_bytes, fixed_bytes + 6 * MiB);
}

TEST_F(ServingTest, ABudgetTooSmallIsRefusedAndNothingChanges) {
  const auto refused = serve({request("a"), request("b")}, 64 * KiB);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("too small"), std::string::npos);
  EXPECT_NE(refused.error().message.find("largest tile"), std::string::npos);
  auto serving = serve({request("a"), request("b")}, 2 * MiB);
  ASSERT_TRUE(serving) << serving.error().message;
  const ServingState before = (*serving)->state();
  ASSERT_FALSE((*serving)->set_budget(before.least_budget_bytes - 1));
  EXPECT_EQ((*serving)->state().budget_bytes, before.budget_bytes);
  ASSERT_TRUE((*serving)->set_budget(before.least_budget_bytes));
  wait_for_inferences(**serving, 5);
  EXPECT_EQ(wrong_, 0);
}

TEST_F(ServingTest, InferencesComeWithTheirPeriod) {
  constexpr uint64_t period_ns = 20'000'000;
  auto serving = serve({request("a", period_ns)}, 2 * MiB);
  ASSERT_TRUE(serving) << serving.error().message;
  wait_for_inferences(**serving, 6);
  const auto inferences = (*serving)->inferences(0);
  // Never sooner than due; how late depends on the machine.
  for (size_t i = 2; i < inferences.size(); ++i) {
    EXPECT_GE(inferences[i].start_ns / period_ns, inferences[i - 1].start_ns / period_ns + 1);
  }
}

TEST_F(ServingTest, AFailureOfOneIsToldAndEndsNobodyElse) {
  const std::string copy = packed_path_ + ".cut";
  std::filesystem::copy_file(packed_path_, copy);
  std::vector<NetworkRequest> requests = {request("whole"), request("cut")};
  requests[1].weights_path = copy;
  auto serving = serve(std::move(requests), too_small_for_one_bytes);
  ASSERT_TRUE(serving) << serving.error().message;
  ASSERT_GT((*serving)->state().networks[1].weights_bytes, too_small_for_one_bytes);
  wait_for_inferences(**serving, 2);
  std::filesystem::resize_file(copy, 8192);
  const Status outcome = (*serving)->wait(60 * second_ns);
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find(copy), std::string::npos) << outcome.error().message;
  const size_t so_far = (*serving)->state().networks[0].inferences;
  while ((*serving)->state().networks[0].inferences < so_far + 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(wrong_, 0);
}

TEST_F(ServingTest, WhatCannotBeOpenedIsRefusedAtOnce) {
  std::vector<NetworkRequest> requests = {request("a"), request("b")};
  requests[1].weights_path = "/nowhere/b.weights";
  const auto serving = serve(std::move(requests), 8 * MiB);
  ASSERT_FALSE(serving);
  EXPECT_NE(serving.error().message.find("/nowhere/b.weights"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::serve
