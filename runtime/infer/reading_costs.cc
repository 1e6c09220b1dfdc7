#include "runtime/infer/reading_costs.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {
namespace {

using pipeline::Pipeline;
using pipeline::Span;
using pipeline::Timeline;
using pipeline::UnitTimes;

// Small networks take more passes, to be as sure.
constexpr size_t passes_min = 4;
constexpr size_t passes_max = 24;
constexpr uint64_t enough_ns = 500'000'000;
constexpr uint64_t large_piece_bytes = 2 * MiB;
constexpr uint64_t small_piece_bytes = 128 * KiB;
constexpr uint64_t ring_bytes_min = 16 * MiB;
// Smaller ones say how long a disk takes to answer.
constexpr uint64_t telling_bytes_min = 256 * KiB;
// What is read one piece at a time keeps OpenMP's threads waiting until they sleep, and waking them
// takes from short kernels what reading seems to take. So networks that are small, as those with
// short kernels are, are in memory while kernels are measured alone.
constexpr uint64_t preload_bytes_max = 128 * MiB;
// From one kernel to the next while nothing is read (GoogLeNet and SqueezeNet on two processors,
// `infer --trace`, 2026-11-22).
constexpr uint64_t between_kernels_ns = 1'000;

/// The time in which at least one read was under way.
uint64_t reading_ns(const Timeline& times) {
  std::vector<Span> reads;
  for (const UnitTimes& it : times.units) {
    if (it.read.finish_ns > 0) reads.push_back(it.read);
  }
  std::sort(reads.begin(), reads.end(),
            [](const Span& left, const Span& right) { return left.start_ns < right.start_ns; });
  uint64_t sum_ns = 0;
  uint64_t end_ns = 0;
  for (const Span& it : reads) {
    const uint64_t from_ns = std::max(it.start_ns, end_ns);
    end_ns = std::max(end_ns, it.finish_ns);
    sum_ns += end_ns - std::min(from_ns, end_ns);
  }
  return sum_ns;
}

/// From when they could begin, their weights and the kernel before them being finished.
uint64_t computing_ns(const Timeline& times) {
  uint64_t sum_ns = 0;
  uint64_t before_ns = times.start_ns;
  for (const UnitTimes& it : times.units) {
    sum_ns += it.kernel.finish_ns - std::max(before_ns, it.read.finish_ns);
    before_ns = it.kernel.finish_ns;
  }
  return sum_ns;
}

uint64_t kernels_ns(const Timeline& times) {
  uint64_t sum_ns = 0;
  for (const UnitTimes& it : times.units) sum_ns += it.kernel.finish_ns - it.kernel.start_ns;
  return sum_ns;
}

Result<std::unique_ptr<Inference>> open(const network::Network& network,
                                        const std::string& weights_path, int threads,
                                        const WindowRequest& window) {
  return Inference::open(network, weights_path,
                         {.window = window, .reads_across_inferences = false, .threads = threads});
}

struct Passes {
  PassesBeside beside;
  uint64_t reading_ns = 0;
};

Result<Passes> measure_passes(const network::Network& network, const std::string& weights_path,
                              int threads, uint64_t piece_bytes_max) {
  const bool is_small = network.folded_bytes() <= preload_bytes_max;
  auto alone = open(network, weights_path, threads,
                    {.pipeline = is_small ? Pipeline::preload : Pipeline::sequential,
                     .tile_bytes_max = piece_bytes_max});
  if (!alone) return forward_error(std::move(alone));
  const auto& units = (*alone)->window().units;
  Passes passes;
  uint64_t largest_bytes = 0;
  for (const pipeline::UnitBytes& it : units) {
    passes.beside.bytes += it.length_bytes;
    passes.beside.reads += it.length_bytes > 0;
    largest_bytes = std::max(largest_bytes, it.length_bytes);
  }
  if (largest_bytes < std::min(telling_bytes_min, piece_bytes_max)) {
    return fail(weights_path + ": no layer is large enough to tell how fast it is read",
                "leave the weights away and say it: --disk GB/S");
  }
  const pipeline::Rings rings{.host_bytes = std::max(ring_bytes_min, 4 * largest_bytes)};
  auto beside =
      open(network, weights_path, threads,
           {.pipeline = Pipeline::two_stage, .tile_bytes_max = piece_bytes_max, .rings = rings});
  if (!beside) return forward_error(std::move(beside));

  const std::vector<float> input = some_input(network);
  const std::span<const float> inputs[] = {input};
  std::vector<uint64_t> alone_ns, beside_ns, reads_ns;
  uint64_t spent_ns = 0;
  const auto is_enough = [&] {
    return reads_ns.size() >= passes_min &&
           (reads_ns.size() >= passes_max || spent_ns >= enough_ns);
  };
  // They take turns, so that both see the same machine. The first pass brings in what every pass
  // needs.
  for (bool is_first = true; !is_enough(); is_first = false) {
    for (Inference* const it : {alone->get(), beside->get()}) {
      if (Status ran = it->run(inputs); !ran) return forward_error(std::move(ran));
    }
    if (is_first) continue;
    const Timeline& times = (*alone)->times();
    alone_ns.push_back(is_small ? computing_ns(times)
                                : kernels_ns(times) + between_kernels_ns * units.size());
    beside_ns.push_back(computing_ns((*beside)->times()));
    reads_ns.push_back(reading_ns((*beside)->times()));
    spent_ns += (*beside)->times().delay_ns();
  }
  passes.reading_ns = median(reads_ns);
  passes.beside.longer_ns =
      static_cast<double>(median(beside_ns)) - static_cast<double>(median(alone_ns));
  return passes;
}

}  // namespace

TakenByReads taken_by_reads(const PassesBeside& large, const PassesBeside& small) {
  WP_ASSERT(large.bytes > 0 && large.reads > 0);
  const auto reads = static_cast<double>(large.reads);
  TakenByReads taken;
  if (small.reads > large.reads) {
    const auto more_reads = static_cast<double>(small.reads - large.reads);
    const double ns_per_read = (small.longer_ns - large.longer_ns) / more_reads;
    taken.ns_per_read = std::clamp(ns_per_read, 0.0, std::max(0.0, large.longer_ns / reads));
  }
  taken.ns_per_byte =
      std::max(0.0, large.longer_ns - reads * taken.ns_per_read) / static_cast<double>(large.bytes);
  return taken;
}

Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads) {
  const auto large = measure_passes(network, weights_path, threads, large_piece_bytes);
  if (!large) return tl::make_unexpected(large.error());
  const auto small = measure_passes(network, weights_path, threads, small_piece_bytes);
  if (!small) return tl::make_unexpected(small.error());
  const double reading_s = static_cast<double>(large->reading_ns) / 1e9;
  return ReadingCosts{.bytes_per_s = static_cast<double>(large->beside.bytes) / reading_s,
                      .taken = taken_by_reads(large->beside, small->beside)};
}

}  // namespace weightpager::infer
