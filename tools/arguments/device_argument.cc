#include "tools/arguments/device_argument.h"

#include <fmt/format.h>

namespace weightpager::tools {

using infer::DeviceKind;

Option device_option() {
  return {0,
          "device",
          "NAME",
          "the device that computes: cpu, or cuda, the first NVIDIA GPU (cpu)",
          {"cpu", "cuda"}};
}

Result<DeviceKind> parse_device(const Arguments& arguments) {
  const std::string word = arguments.value("device").value_or("cpu");
  if (word == "cpu") return DeviceKind::cpu;
  if (word == "cuda") return DeviceKind::cuda;
  return fail(fmt::format("--device {}: no such device", word),
              "give cpu or cuda; CUDA_VISIBLE_DEVICES chooses which GPU is the first one");
}

const char* device_word(DeviceKind device) { return device == DeviceKind::cuda ? "cuda" : "cpu"; }

}  // namespace weightpager::tools
