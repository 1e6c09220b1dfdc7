// The regression finds the model that samples were made of, and says what it cannot explain.
#include "runtime/budget/delay_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>

#include "tests/budget/pick.h"

namespace weightpager::budget {
namespace {

// The paper's board: 1.5 GB/s, 52.5 µs to find a tensor's place, 4.1 µs to let one go.
constexpr DelayModel board = {.read_ns_per_byte = 0.667,
                              .read_ns_per_tensor = 52'500,
                              .read_ns_per_block = 80'000,
                              .kernel_ns_per_operation = 0.03,
                              .kernel_ns_per_layer = 12'000,
                              .release_ns_per_tensor = 4'100,
                              .release_ns_per_block = 1'000};

std::vector<Sample> samples_of(const DelayModel& model, double noise_share) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> noise(1 - noise_share, 1 + noise_share);
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 60; ++i) {
    // A third without weights.
    const bool has_weights = i % 3 != 0;
    Sample sample = {.work = {.size_bytes = has_weights ? 4096 * (1 + i * i) : 0,
                              .tensors = has_weights ? 2 + i % 4 : 0,
                              .operations = 1'000'000 * (1 + i * 7 % 60)}};
    const LayerCosts costs = model.layer_costs(sample.work);
    const auto with_noise = [&](uint64_t ns) {
      return static_cast<uint64_t>(std::llround(static_cast<double>(ns) * noise(random)));
    };
    sample.kernel_ns = with_noise(costs.kernel_ns);
    if (has_weights) {
      sample.read_ns = with_noise(costs.read_ns + model.per_block().read_ns);
      sample.release_ns = with_noise(costs.release_ns + model.per_block().release_ns);
    }
    samples.push_back(sample);
  }
  return samples;
}

TEST(DelayModel, IsFoundAgainInItsOwnSamples) {
  const auto fitted = fit_delays(samples_of(board, 0));
  ASSERT_TRUE(fitted) << fitted.error().message;
  const DelayModel& model = fitted->model;
  EXPECT_NEAR(model.read_ns_per_byte, board.read_ns_per_byte, 1e-4);
  EXPECT_NEAR(model.read_ns_per_tensor, board.read_ns_per_tensor, 5);
  EXPECT_NEAR(model.read_ns_per_block, board.read_ns_per_block, 5);
  EXPECT_NEAR(model.kernel_ns_per_operation, board.kernel_ns_per_operation, 1e-6);
  EXPECT_NEAR(model.kernel_ns_per_layer, board.kernel_ns_per_layer, 5);
  EXPECT_NEAR(model.release_ns_per_tensor, board.release_ns_per_tensor, 5);
  EXPECT_NEAR(model.release_ns_per_block, board.release_ns_per_block, 5);
  EXPECT_GT(fitted->read.r_squared, 0.999999);
  EXPECT_GT(fitted->kernel.r_squared, 0.999999);
  EXPECT_GT(fitted->release.r_squared, 0.999999);
  EXPECT_EQ(fitted->read.samples, 40u);
  EXPECT_EQ(fitted->kernel.samples, 60u);
  for (const double ns : fitted->read.residuals_ns) EXPECT_LT(std::abs(ns), 2);
}

TEST(DelayModel, NoiseCostsItsShareOfRSquared) {
  const auto fitted = fit_delays(samples_of(board, 0.2));
  ASSERT_TRUE(fitted);
  EXPECT_GT(fitted->read.r_squared, 0.95);
  EXPECT_LT(fitted->read.r_squared, 0.9999);
  EXPECT_NEAR(fitted->model.read_ns_per_byte, board.read_ns_per_byte, 0.1);
}

TEST(DelayModel, RSquaredIsOfTheDifferencesFromTheMean) {
  std::vector<Sample> samples;
  // By hand: the line 10 + 2 x through (1, 13), (2, 13), (3, 15), (4, 19) leaves 1, −1, −1, 1
  // of 24.
  const uint64_t measured_ns[] = {13, 13, 15, 19};
  for (uint64_t i = 0; i < 4; ++i) {
    samples.push_back({.work = {.size_bytes = i + 1, .operations = i + 1},
                       .read_ns = 10 * (i + 1),
                       .kernel_ns = measured_ns[i]});
  }
  const auto fitted = fit_delays(samples);
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->model.kernel_ns_per_operation, 2, 1e-9);
  EXPECT_NEAR(fitted->model.kernel_ns_per_layer, 10, 1e-9);
  EXPECT_NEAR(fitted->kernel.r_squared, 1 - 4.0 / 24, 1e-9);
  EXPECT_NEAR(fitted->kernel.residuals_ns[1], -1, 1e-9);
  EXPECT_NEAR(fitted->read.r_squared, 1, 1e-9);
}

// Every layer has the same two tensors: they cannot be told from the constant, and one of both gets
// what there is. Nothing is released: that costs nothing, and it explains everything.
TEST(DelayModel, ColumnsThatCannotBeToldApart) {
  std::vector<Sample> samples;
  for (uint64_t i = 1; i <= 10; ++i) {
    samples.push_back({.work = {.size_bytes = 1000 * i, .tensors = 2, .operations = i},
                       .read_ns = 500 + 2000 * i,
                       .kernel_ns = 7 * i});
  }
  const auto fitted = fit_delays(samples);
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->model.read_ns_per_byte, 2, 1e-9);
  EXPECT_NEAR(2 * fitted->model.read_ns_per_tensor + fitted->model.read_ns_per_block, 500, 1e-6);
  EXPECT_EQ(fitted->model.release_ns_per_tensor, 0);
  EXPECT_EQ(fitted->model.release_ns_per_block, 0);
  EXPECT_EQ(fitted->release.r_squared, 1);
}

TEST(DelayModel, TooFewSamplesAreRefused) {
  std::vector<Sample> samples(3, {.work = {.size_bytes = 5}});
  samples.resize(20);
  EXPECT_NE(fit_delays(samples).error().message.find("3 layers"), std::string::npos);
  const std::vector<Sample> alike(9, {.work = {.size_bytes = 5}, .read_ns = 4});
  EXPECT_NE(fit_delays(alike).error().message.find("one size"), std::string::npos);
}

TEST(DelayModel, CostsOfALayerAndOfItsBlock) {
  const Work layer = {.size_bytes = 3000, .tensors = 2, .operations = 10'000};
  const LayerCosts costs = board.layer_costs(layer);
  EXPECT_EQ(costs.size_bytes, 3000u);
  EXPECT_EQ(costs.read_ns, 2001u + 105'000);
  EXPECT_EQ(costs.kernel_ns, 300u + 12'000);
  EXPECT_EQ(costs.release_ns, 8200u);
  EXPECT_EQ(board.per_block().read_ns, 80'000u);
  EXPECT_EQ(board.layer_costs({.operations = 10'000}).read_ns, 0u);
}

// No coefficient is negative, and no other choice without negative ones explains more.
RC_GTEST_PROP(AnyFit, IsTheBestWithoutNegativeCoefficients, ()) {
  std::vector<Sample> samples;
  const auto count = pick(4, 20);
  for (int i = 0; i < count; ++i) {
    samples.push_back({.work = {.size_bytes = pick<uint64_t>(1, 50),
                                .tensors = pick<uint64_t>(1, 6),
                                .operations = pick<uint64_t>(0, 50)},
                       .read_ns = pick<uint64_t>(0, 1000),
                       .kernel_ns = pick<uint64_t>(0, 1000),
                       .release_ns = pick<uint64_t>(0, 1000)});
  }
  const auto fitted = fit_delays(samples);
  RC_PRE(fitted.has_value());
  const DelayModel& model = fitted->model;
  RC_ASSERT(model.read_ns_per_byte >= 0 && model.read_ns_per_tensor >= 0);
  RC_ASSERT(model.read_ns_per_block >= 0);
  const auto error = [&](double byte_ns, double tensor_ns, double block_ns) {
    double sum = 0;
    for (const Sample& sample : samples) {
      const double ns = byte_ns * static_cast<double>(sample.work.size_bytes) +
                        tensor_ns * static_cast<double>(sample.work.tensors) + block_ns;
      sum += std::pow(ns - static_cast<double>(sample.read_ns), 2);
    }
    return sum;
  };
  const double best =
      error(model.read_ns_per_byte, model.read_ns_per_tensor, model.read_ns_per_block);
  // Convex: a better one would have a better one nearby.
  for (int i = 0; i < 27; ++i) {
    const double steps[] = {static_cast<double>(i % 3 - 1), static_cast<double>(i / 3 % 3 - 1),
                            static_cast<double>(i / 9 - 1)};
    const double nearby = error(std::max(0.0, model.read_ns_per_byte + 0.01 * steps[0]),
                                std::max(0.0, model.read_ns_per_tensor + 0.1 * steps[1]),
                                std::max(0.0, model.read_ns_per_block + 0.1 * steps[2]));
    RC_ASSERT(nearby >= best * (1 - 1e-9) - 1e-6);
  }
}

}  // namespace
}  // namespace weightpager::budget
