// A whole network on a GPU: what holds on every device, and results near the processor's.
#include "runtime/infer/inference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cuda/gpu.h"
#include "tests/infer/on_every_device.h"
#include "tests/ops/compute_threads.h"

namespace weightpager::infer {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, OnEveryDevice,
                         testing::Values(TestedDevice{DeviceKind::cuda, cuda::missing}));

TEST_P(OnEveryDevice, IsNearTheProcessors) {
  auto processor = Inference::open(network_, packed_path_, {.threads = ops::compute_threads});
  ASSERT_TRUE(processor) << processor.error().message;
  const std::vector<float> expected = output_of(**processor);
  const std::vector<float> found = reference();
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3 * largest) << i;
}

}  // namespace
}  // namespace weightpager::infer
