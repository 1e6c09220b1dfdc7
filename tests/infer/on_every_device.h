// What an inference promises, whatever computes. The tests are in on_every_device.cc; they run for
// the devices that a test program instantiates them with.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/base/lacks.h"
#include "tests/infer/small_network.h"

namespace weightpager::infer {

struct TestedDevice {
  DeviceKind kind = DeviceKind::cpu;
  /// Why there is none here.
  Lack (*missing)() = nullptr;

  friend std::ostream& operator<<(std::ostream& stream, const TestedDevice& it) {
    return stream << (it.kind == DeviceKind::cpu ? "cpu" : "cuda");
  }
};

class OnEveryDevice : public testing::TestWithParam<TestedDevice>, protected SmallNetwork {
 protected:
  void SetUp() override;

  InferenceOptions options(const WindowRequest& window) const;
  Result<std::unique_ptr<Inference>> open(const WindowRequest& window, bool is_packed = true) const;
  /// Of the input, with all weights in memory.
  std::vector<float> reference() const;
};

}  // namespace weightpager::infer
