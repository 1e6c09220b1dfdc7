// What a comparison of pipelines keeps of its runs. Nothing here depends on how long they take; one
// thread computes, because several wait long for each other where others use the processors.
#include "runtime/infer/pipeline_comparison.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/infer/layer_measurement.h"
#include "tests/infer/small_network.h"

namespace weightpager::infer {
namespace {

using pipeline::UnitCosts;

class PipelineComparisonTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override { make(); }
};

TEST_F(PipelineComparisonTest, CountsWhatGrowsDuringInferencesThatCount) {
  // Each reading is one more than the one before: a turn, with a reading before and one after its
  // inferences, adds one.
  double readings = 0;
  const auto comparison =
      compare_pipelines(network_, {.weights_path = weights_path_,
                                   .inferences = 2,
                                   .inferences_per_turn = 1,
                                   .tiled_windows_bytes = {window_for_tiles(100 * 1024)},
                                   .read_counters = [&] {
                                     ++readings;
                                     return std::vector<double>{readings, 10 * readings};
                                   }});
  ASSERT_TRUE(comparison) << comparison.error().message;
  EXPECT_EQ(comparison->configurations.size(), 10u);
  for (const Configuration& it : comparison->configurations) {
    EXPECT_EQ(it.delays_ns.size(), 2u) << it.name;
    EXPECT_EQ(it.counted, (std::vector<double>{2, 20})) << it.name;
    EXPECT_EQ(comparison->find(it.name)->name, it.name);
  }
  EXPECT_EQ(comparison->find("2S")->pipeline, pipeline::Pipeline::two_stage);
  EXPECT_EQ(comparison->find("3S"), nullptr);

  const UnitCosts all = comparison->all_layers();
  UnitCosts sums;
  for (const UnitCosts& it : comparison->layer_costs) {
    sums.size_bytes += it.size_bytes;
    sums.read_ns += it.read_ns;
    sums.copy_ns += it.copy_ns;
    sums.kernel_ns += it.kernel_ns;
  }
  EXPECT_EQ(all.size_bytes, sums.size_bytes);
  EXPECT_GE(all.size_bytes, network_.folded_bytes());
  EXPECT_EQ(all.read_ns, sums.read_ns);
  EXPECT_EQ(all.copy_ns, sums.copy_ns);
  EXPECT_EQ(all.kernel_ns, sums.kernel_ns);
}

TEST_F(PipelineComparisonTest, CostsOfLayersAreMediansOfRuns) {
  const auto run = [](uint64_t read_ns, uint64_t kernel_ns) {
    return std::vector<UnitCosts>{
        {.size_bytes = 7, .read_ns = read_ns, .copy_ns = 100 - read_ns, .kernel_ns = kernel_ns},
        {.kernel_ns = 1}};
  };
  const auto costs = median_costs({run(30, 5), run(10, 9), run(20, 1)});
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].size_bytes, 7u);
  EXPECT_EQ(costs[0].read_ns, 20u);
  EXPECT_EQ(costs[0].copy_ns, 80u);
  EXPECT_EQ(costs[0].kernel_ns, 5u);
  EXPECT_EQ(costs[1].kernel_ns, 1u);
}

TEST_F(PipelineComparisonTest, EveryRunOfLayersIsKept) {
  std::vector<std::unique_ptr<Inference>> inferences;
  for (const auto which : {pipeline::Pipeline::sequential, pipeline::Pipeline::preload}) {
    auto opened = Inference::open(network_, weights_path_, {.window = {.pipeline = which}});
    ASSERT_TRUE(opened) << opened.error().message;
    inferences.push_back(std::move(*opened));
  }
  const auto runs = run_layers(*inferences[0], *inferences[1], some_input(network_), 3);
  ASSERT_TRUE(runs) << runs.error().message;
  ASSERT_EQ(runs->size(), 3u);
  for (const auto& run : *runs) {
    ASSERT_EQ(run.size(), network_.layers.size());
    for (size_t i = 0; i < run.size(); ++i) {
      const bool has_weights = network_.layers[i].weights() > 0;
      EXPECT_EQ(run[i].size_bytes > 0, has_weights) << i;
      EXPECT_EQ(run[i].read_ns > 0, has_weights) << i;
    }
  }
}

}  // namespace
}  // namespace weightpager::infer
