// What no GPU does when asked: faults in the middle, memory that is not there, a driver without
// mappings.
#include <gtest/gtest.h>

#include "pager/base/units.h"
#include "runtime/infer/inference.h"
#include "runtime/pipeline/cuda/device_memory.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/infer/small_network.h"

namespace weightpager::infer {
namespace {

using pipeline::Pipeline;

class EmulatedGpuTest : public testing::TestWithParam<Pipeline>, protected SmallNetwork {
 protected:
  void SetUp() override { make(); }
  void TearDown() override { emulation::repair(); }

  Result<std::unique_ptr<Inference>> open() {
    return Inference::open(network_, packed_path_,
                           {.window = {.pipeline = GetParam()}, .device = DeviceKind::cuda});
  }
  Status run(Inference& inference) const {
    const std::span<const float> input = input_;
    return inference.run({&input, 1});
  }
};

TEST_P(EmulatedGpuTest, AFaultAtAnyTimeIsAnErrorThatIsToldAtOnceAndEverAgain) {
  // A run of this network has 25 at least.
  for (uint64_t pieces = 0; pieces < 25; pieces += 4) {
    auto inference = open();
    ASSERT_TRUE(inference) << inference.error().message;
    ASSERT_TRUE(run(**inference));
    emulation::fail_after(pieces);
    for (int again = 0; again < 2; ++again) {
      const Status failed = run(**inference);
      ASSERT_FALSE(failed) << pieces;
      EXPECT_NE(failed.error().message.find("illegal memory access"), std::string::npos)
          << failed.error().message;
      EXPECT_FALSE(failed.error().hint.empty());
    }
    inference->reset();
    emulation::repair();
  }
}

TEST_P(EmulatedGpuTest, MemoryThatIsNotThereIsAnErrorThatSaysForWhat) {
  emulation::limit_memory(100);
  const auto inference = open();
  ASSERT_FALSE(inference);
  EXPECT_NE(inference.error().message.find("no memory on the GPU for"), std::string::npos)
      << inference.error().message;
  EXPECT_EQ(emulation::taken_bytes(), 0u);
}

// A real driver counts in blocks of its own, and others' allocations too.
TEST_P(EmulatedGpuTest, TheGpusMemoryIsCountedAndGivenBack) {
  {
    auto inference = open();
    ASSERT_TRUE(inference) << inference.error().message;
    ASSERT_TRUE(run(**inference));
    const DeviceMemoryUse use = (*inference)->device_memory();
    EXPECT_EQ(use.all_bytes, emulation::taken_bytes());
    // Rings of whole steps are mirrored, and take no more than they hold.
    const uint64_t host_bytes = (*inference)->window().rings.host_bytes;
    EXPECT_EQ(use.weights_bytes, (*inference)->window_bytes() - host_bytes);
    EXPECT_EQ(use.weights_bytes == 0, GetParam() == Pipeline::two_stage);
  }
  EXPECT_EQ(emulation::taken_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, EmulatedGpuTest,
                         testing::Values(Pipeline::preload, Pipeline::sequential,
                                         Pipeline::synchronous, Pipeline::asynchronous,
                                         Pipeline::two_stage),
                         [](const auto& it) {
                           std::string word(name(it.param));
                           std::erase(word, '-');
                           return word;
                         });

// What is written in front of the end and behind it is found there again.
void expect_contiguous(const cuda::DeviceRing& ring, uint64_t capacity_bytes) {
  std::byte* const piece = ring.at(capacity_bytes - 100);
  std::fill(piece, piece + 200, std::byte{7});
  EXPECT_EQ(std::count(piece, piece + 200, std::byte{7}), 200);
}

TEST(DeviceRing, IsMappedTwiceOrHasRoomForAPieceBehindItsEnd) {
  {
    const auto ring = cuda::DeviceRing::make(4 * MiB, 1 * MiB);
    ASSERT_TRUE(ring) << ring.error().message;
    EXPECT_TRUE(ring->is_mirrored());
    expect_contiguous(*ring, 4 * MiB);
    EXPECT_EQ(*ring->at(0), std::byte{7});
    EXPECT_EQ(emulation::taken_bytes(), 4 * MiB);
  }
  EXPECT_EQ(emulation::taken_bytes(), 0u);
  {
    const auto odd = cuda::DeviceRing::make(3 * MiB, 1 * MiB);
    ASSERT_TRUE(odd) << odd.error().message;
    EXPECT_FALSE(odd->is_mirrored());
    expect_contiguous(*odd, 3 * MiB);
    EXPECT_EQ(emulation::taken_bytes(), 4 * MiB);
  }
  emulation::refuse_mappings();
  const auto refused = cuda::DeviceRing::make(4 * MiB, 1 * MiB);
  emulation::repair();
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_FALSE(refused->is_mirrored());
  EXPECT_EQ(emulation::taken_bytes(), 5 * MiB);
}

}  // namespace
}  // namespace weightpager::infer
