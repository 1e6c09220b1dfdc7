// The executor with a GPU for a device: every unit's bytes are where kernels look for them, at the
// time when they look, in every pipeline; and failures come back as errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pager/base/units.h"
#include "runtime/pipeline/cuda/cuda_device.h"
#include "runtime/pipeline/cuda/status.h"
#include "runtime/pipeline/executor.h"
#include "tests/cuda/gpu.h"
#include "tests/io/faulty_reader.h"
#include "tests/io/pattern_file.h"
#include "tests/pipeline/some_units.h"

namespace weightpager::cuda {
namespace {

using io::PatternFile;
using pipeline::Executor;
using pipeline::ExecutorOptions;
using pipeline::Pipeline;
using pipeline::pipelines;
using pipeline::some_units;
using pipeline::UnitBytes;

/// Keeps what a kernel finds of each unit, by copies in the stream of the kernels.
class KeepingWork final : public pipeline::UnitWork {
 public:
  KeepingWork(const std::vector<UnitBytes>& units, cudaStream_t stream)
      : units_(units), stream_(stream) {
    uint64_t total_bytes = 0;
    for (const UnitBytes& unit : units) {
      offsets_bytes_.push_back(total_bytes);
      total_bytes += unit.length_bytes;
    }
    kept_ = *DeviceMemory::make(total_bytes, "a test");
    found_.resize(total_bytes);
  }

  Status take_in(uint32_t unit, std::span<std::byte> bytes) override {
    EXPECT_EQ(bytes.size(), units_[unit].length_bytes);
    if (refused_unit_ == unit) return fail("checksum of unit does not match");
    return {};
  }

  Status compute(uint32_t unit, const std::byte* bytes,
                 const pipeline::Meanwhile& meanwhile) override {
    EXPECT_FALSE(meanwhile) << "kernels go on when the call that began them has returned";
    if (failing_unit_ == unit) return fail("no such kernel");
    EXPECT_EQ(bytes == nullptr, units_[unit].length_bytes == 0);
    if (bytes == nullptr) return {};
    return check(cudaMemcpyAsync(kept_.at(offsets_bytes_[unit]), bytes, units_[unit].length_bytes,
                                 cudaMemcpyDefault, stream_),
                 "no copy");
  }

  /// Looks at it, and forgets it.
  void expect_all_bytes() {
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(found_.data(), kept_.at(0), found_.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      const UnitBytes& it = units_[unit];
      EXPECT_EQ(io::first_difference({found_.data() + offsets_bytes_[unit], it.needed_bytes},
                                     it.offset_bytes),
                std::nullopt)
          << "unit " << unit;
    }
    std::fill(found_.begin(), found_.end(), std::byte{0xee});
    ASSERT_EQ(cudaMemcpy(kept_.at(0), found_.data(), found_.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

  std::optional<uint32_t> refused_unit_;
  std::optional<uint32_t> failing_unit_;

 private:
  const std::vector<UnitBytes>& units_;
  cudaStream_t stream_;
  std::vector<uint64_t> offsets_bytes_;
  DeviceMemory kept_;
  std::vector<std::byte> found_;
};

class CudaDeviceTest : public testing::TestWithParam<Pipeline> {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(cuda::missing());
    auto stream = make_stream();
    ASSERT_TRUE(stream) << stream.error().message;
    stream_ = std::move(*stream);
    work_.emplace(units_, stream_.get());
  }

  // With rings as small as they go, or larger. `is_stepwise`: a GPU can map its ring twice.
  ExecutorOptions options(uint64_t slack_bytes, bool is_stepwise = false) const {
    std::vector<pipeline::WorkUnit> work_units;
    for (const UnitBytes& unit : units_) {
      work_units.push_back({.size_bytes = unit.length_bytes, .is_pinned = unit.is_pinned});
    }
    pipeline::Rings rings = smallest_rings(GetParam(), work_units);
    if (GetParam() == Pipeline::preload) rings.host_bytes = 61 * os_page_bytes;
    rings.host_bytes += slack_bytes;
    if (rings.device_bytes > 0) rings.device_bytes += slack_bytes;
    if (is_stepwise) {
      rings.device_bytes = round_up(rings.device_bytes, pipeline::gpu_ring_step_bytes);
    }
    return {.schedule = {.pipeline = GetParam(), .rings = rings},
            .fd = file_.fd(),
            .file_name = "pattern.weights",
            .device_read_bytes = 64 * KiB};
  }

  std::unique_ptr<Executor> make(const ExecutorOptions& options) {
    auto executor = Executor::make(units_, options, *work_, make_cuda_device(stream_.get()));
    EXPECT_TRUE(executor) << executor.error().message;
    return executor ? std::move(*executor) : nullptr;
  }

  void expect_runs(Executor& executor, int runs) {
    for (int run = 0; run < runs; ++run) {
      const Status ran = executor.run();
      ASSERT_TRUE(ran) << ran.error().message;
      work_->expect_all_bytes();
    }
  }

  PatternFile file_{5 * MiB + 1234};
  std::vector<UnitBytes> units_ = some_units(file_.size_bytes());
  Stream stream_;
  std::optional<KeepingWork> work_;
};

TEST_P(CudaDeviceTest, KernelsFindEveryUnitsBytes) {
  for (const uint64_t slack_bytes : {uint64_t{0}, 12 * KiB, 1 * MiB}) {
    for (const bool is_stepwise : {false, true}) {
      for (const bool reads_across : {false, true}) {
        ExecutorOptions it = options(slack_bytes, is_stepwise);
        it.schedule.reads_across_inferences = reads_across;
        const auto executor = make(it);
        ASSERT_NE(executor, nullptr);
        expect_runs(*executor, 4);
      }
    }
  }
}

TEST_P(CudaDeviceTest, PinnedUnitsAreReadOnce) {
  for (size_t i = 0; i < units_.size(); i += 3) units_[i].is_pinned = true;
  const auto executor = make(options(64 * KiB));
  ASSERT_NE(executor, nullptr);
  expect_runs(*executor, 1);
  const uint64_t once_bytes = executor->read_bytes();
  expect_runs(*executor, 1);
  uint64_t streamed_bytes = 0;
  for (const UnitBytes& unit : units_) {
    if (!unit.is_pinned && GetParam() != Pipeline::preload) streamed_bytes += unit.needed_bytes;
  }
  EXPECT_EQ(executor->read_bytes() - once_bytes, streamed_bytes);
}

TEST_P(CudaDeviceTest, TimesAreInTheirOrder) {
  const auto executor = make(options(64 * KiB));
  ASSERT_NE(executor, nullptr);
  expect_runs(*executor, 2);
  const pipeline::Timeline& times = executor->times();
  uint64_t last_finish_ns = times.start_ns;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const pipeline::TimeSpan& kernel = times.units[unit].kernel;
    EXPECT_GE(kernel.finish_ns, kernel.start_ns) << unit;
    EXPECT_GE(kernel.finish_ns, last_finish_ns) << unit;
    EXPECT_LE(kernel.finish_ns, times.finish_ns) << unit;
    last_finish_ns = kernel.finish_ns;
    const bool is_copied = units_[unit].length_bytes > 0 && GetParam() != Pipeline::two_stage &&
                           GetParam() != Pipeline::preload;
    EXPECT_EQ(times.units[unit].copy.finish_ns > 0, is_copied) << unit;
  }
}

TEST_P(CudaDeviceTest, AReadThatFailsFailsTheInferenceAndNotTheNext) {
  ExecutorOptions it = options(64 * KiB);
  it.open_reader =
      io::faulty_pread(io::at_read(17, {.kind = io::Fault::Kind::error, .error_number = EIO}));
  const auto executor = make(it);
  ASSERT_NE(executor, nullptr);
  const Status failed = executor->run();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().error_number, EIO);
  expect_runs(*executor, 2);
}

TEST_P(CudaDeviceTest, BytesThatAreRefusedFailTheInferenceAndNotTheNext) {
  work_->refused_unit_ = 21;
  const auto executor = make(options(64 * KiB));
  ASSERT_NE(executor, nullptr);
  const Status failed = executor->run();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("checksum"), std::string::npos);
  work_->refused_unit_.reset();
  expect_runs(*executor, 2);
}

TEST_P(CudaDeviceTest, AKernelThatCannotBeStartedFailsTheInferenceAndNotTheNext) {
  work_->failing_unit_ = 21;
  const auto executor = make(options(64 * KiB));
  ASSERT_NE(executor, nullptr);
  const Status failed = executor->run();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("no such kernel"), std::string::npos);
  work_->failing_unit_.reset();
  expect_runs(*executor, 2);
}

TEST_P(CudaDeviceTest, CanBeGivenUpAtAnyTime) {
  ExecutorOptions it = options(64 * KiB);
  it.schedule.reads_across_inferences = true;
  for (int runs = 0; runs < 3; ++runs) {
    const auto executor = make(it);
    ASSERT_NE(executor, nullptr);
    expect_runs(*executor, runs);
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, CudaDeviceTest, testing::ValuesIn(pipelines),
                         [](const auto& it) {
                           std::string word(name(it.param));
                           std::erase(word, '-');
                           return word;
                         });

}  // namespace
}  // namespace weightpager::cuda
