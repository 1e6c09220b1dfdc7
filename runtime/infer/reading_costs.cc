#include "runtime/infer/reading_costs.h"

#include <algorithm>
#include <span>
#include <vector>

#include "pager/base/units.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"

namespace weightpager::infer {
namespace {

constexpr int passes = 3;
// Smaller ones say how long a disk takes to answer.
constexpr uint64_t telling_bytes_min = 256 * KiB;

}  // namespace

Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads) {
  InferenceOptions options{.reads_across_inferences = false, .threads = threads};
  options.window.pipeline = pipeline::Pipeline::sequential;
  auto inference = Inference::open(network, weights_path, options);
  if (!inference) return forward_error(std::move(inference));
  const std::vector<float> input = some_input(network);
  const std::span<const float> inputs[] = {input};
  double least_ns_per_byte = 0;
  for (int pass = 0; pass < passes; ++pass) {
    if (Status ran = (*inference)->run(inputs); !ran) return forward_error(std::move(ran));
    uint64_t bytes = 0;
    uint64_t read_ns = 0;
    for (const pipeline::UnitCosts& it : (*inference)->layer_costs()) {
      if (it.size_bytes < telling_bytes_min) continue;
      bytes += it.size_bytes;
      read_ns += it.read_ns;
    }
    if (bytes == 0 || read_ns == 0) {
      return fail(weights_path + ": no layer is large enough to tell how fast it is read",
                  "leave the weights away and say it: --disk GB/S");
    }
    const double ns_per_byte = static_cast<double>(read_ns) / static_cast<double>(bytes);
    least_ns_per_byte = pass == 0 ? ns_per_byte : std::min(least_ns_per_byte, ns_per_byte);
  }
  return ReadingCosts{1e9 / least_ns_per_byte, (*inference)->reading_ns_per_byte()};
}

}  // namespace weightpager::infer
