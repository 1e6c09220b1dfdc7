#include "runtime/infer/reading_costs.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "pager/base/median.h"
#include "pager/base/units.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {
namespace {

using pipeline::Pipeline;
using pipeline::UnitCosts;

constexpr int passes = 5;
constexpr uint64_t tile_bytes_max = 2 * MiB;
constexpr uint64_t ring_bytes_min = 16 * MiB;
// Smaller ones say how long a disk takes to answer.
constexpr uint64_t telling_bytes_min = 256 * KiB;
// What a byte may take from processors; far more than any disk's driver.
constexpr double processor_ns_max = 8;

/// A pass of each pipeline over the same pieces.
class Measurement {
 public:
  Measurement(const network::Network& network, const std::string& weights_path, int threads)
      : network_(network),
        weights_path_(weights_path),
        threads_(threads),
        input_(some_input(network)) {}

  Result<ReadingCosts> run() {
    if (Status measured = measure_pieces(); !measured) return forward_error(std::move(measured));
    const double ns_per_byte = read_ns_per_byte();
    if (ns_per_byte == 0) {
      return fail(weights_path_ + ": no layer is large enough to tell how fast it is read",
                  "leave the weights away and say it: --disk GB/S");
    }
    const auto delay_ns = measure_overlapped();
    if (!delay_ns) return tl::make_unexpected(delay_ns.error());
    return ReadingCosts{1e9 / ns_per_byte, processor_ns_per_byte(*delay_ns)};
  }

 private:
  Result<std::unique_ptr<Inference>> open(const WindowRequest& window) const {
    return Inference::open(
        network_, weights_path_,
        {.window = window, .reads_across_inferences = false, .threads = threads_});
  }

  Status run(Inference& inference) const {
    const std::span<const float> inputs[] = {input_};
    return inference.run(inputs);
  }

  // One thing at a time; of several passes the median.
  Status measure_pieces() {
    auto inference = open({.pipeline = Pipeline::sequential, .tile_bytes_max = tile_bytes_max});
    if (!inference) return forward_error(std::move(inference));
    std::vector<std::vector<uint64_t>> reads_ns, kernels_ns;
    for (int pass = 0; pass <= passes; ++pass) {
      if (Status ran = run(**inference); !ran) return ran;
      const auto& units = (*inference)->times().units;
      reads_ns.resize(units.size());
      kernels_ns.resize(units.size());
      // The first pass brings in what every pass needs.
      if (pass == 0) continue;
      for (size_t i = 0; i < units.size(); ++i) {
        reads_ns[i].push_back(units[i].read.finish_ns - units[i].read.start_ns);
        kernels_ns[i].push_back(units[i].kernel.finish_ns - units[i].kernel.start_ns);
      }
    }
    for (size_t i = 0; i < reads_ns.size(); ++i) {
      costs_.push_back({.size_bytes = (*inference)->window().units[i].length_bytes,
                        .read_ns = median(reads_ns[i]),
                        .kernel_ns = median(kernels_ns[i])});
      largest_bytes_ = std::max(largest_bytes_, costs_.back().size_bytes);
    }
    return {};
  }

  double read_ns_per_byte() const {
    double bytes = 0;
    double read_ns = 0;
    for (const UnitCosts& it : costs_) {
      if (it.size_bytes < telling_bytes_min) continue;
      bytes += static_cast<double>(it.size_bytes);
      read_ns += static_cast<double>(it.read_ns);
    }
    return bytes == 0 ? 0 : read_ns / bytes;
  }

  // Reading while computing.
  Result<uint64_t> measure_overlapped() {
    rings_.host_bytes = std::max(ring_bytes_min, 4 * largest_bytes_);
    auto inference =
        open({.pipeline = Pipeline::two_stage, .tile_bytes_max = tile_bytes_max, .rings = rings_});
    if (!inference) return forward_error(std::move(inference));
    std::vector<uint64_t> delays_ns;
    for (int pass = 0; pass <= passes; ++pass) {
      if (Status ran = run(**inference); !ran) return forward_error(std::move(ran));
      if (pass > 0) delays_ns.push_back((*inference)->times().delay_ns());
    }
    return median(delays_ns);
  }

  // With which the equations give the delay that was measured.
  double processor_ns_per_byte(uint64_t delay_ns) const {
    double least = 0;
    double most = processor_ns_max;
    for (int step = 0; step < 40; ++step) {
      const double middle = (least + most) / 2;
      std::vector<UnitCosts> costs = costs_;
      for (UnitCosts& it : costs) {
        it.kernel_ns += static_cast<uint64_t>(static_cast<double>(it.size_bytes) * middle);
      }
      (pipeline::delay_ns(Pipeline::two_stage, costs, rings_) < delay_ns ? least : most) = middle;
    }
    return least;
  }

  const network::Network& network_;
  const std::string& weights_path_;
  const int threads_;
  const std::vector<float> input_;
  std::vector<UnitCosts> costs_;  // by piece
  uint64_t largest_bytes_ = 0;
  pipeline::Rings rings_;
};

}  // namespace

Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads) {
  return Measurement(network, weights_path, threads).run();
}

}  // namespace weightpager::infer
