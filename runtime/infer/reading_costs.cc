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
constexpr uint64_t ring_bytes_max = 16 * MiB;
// Smaller ones say how long a disk takes to answer.
constexpr uint64_t telling_bytes_min = 256 * KiB;
// What is read one piece at a time keeps OpenMP's threads waiting until they sleep, and waking them
// takes from short kernels what reading seems to take. So networks that are small, as those with
// short kernels are, are in memory while kernels are measured alone.
constexpr uint64_t preload_bytes_max = 128 * MiB;
// From one kernel to the next while nothing is read (GoogLeNet and SqueezeNet on two processors,
// `infer --trace`, 2026-11-22).
constexpr uint64_t between_kernels_ns = 1'000;

struct Reads {
  /// In which at least one was under way.
  uint64_t busy_ns = 0;
  /// How long those took that began while no other was under way, and their bytes.
  std::vector<uint64_t> alone_ns;
  uint64_t alone_bytes = 0;
};

void add_reads(const Timeline& times, std::span<const pipeline::UnitBytes> units, Reads& all) {
  std::vector<std::pair<Span, uint64_t>> reads;
  for (size_t i = 0; i < units.size(); ++i) {
    const Span& read = times.units[i].read;
    if (read.finish_ns > 0) reads.emplace_back(read, units[i].length_bytes);
  }
  std::sort(reads.begin(), reads.end(), [](const auto& left, const auto& right) {
    return left.first.start_ns < right.first.start_ns;
  });
  uint64_t end_ns = 0;
  for (const auto& [read, bytes] : reads) {
    if (read.start_ns >= end_ns) {
      all.alone_ns.push_back(read.finish_ns - read.start_ns);
      all.alone_bytes += bytes;
    }
    const uint64_t from_ns = std::max(read.start_ns, end_ns);
    end_ns = std::max(end_ns, read.finish_ns);
    all.busy_ns += end_ns - std::min(from_ns, end_ns);
  }
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
  Reads reads;
  size_t passes = 0;

  double bytes_per_s() const {
    const auto bytes = static_cast<double>(beside.bytes * passes);
    return bytes / static_cast<double>(reads.busy_ns) * 1e9;
  }
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
  // Reads follow kernels, as they do in a plan, and do not all begin with the pass.
  const uint64_t ring_bytes =
      round_up(std::max(4 * largest_bytes, std::min(ring_bytes_max, passes.beside.bytes / 8)),
               os_page_bytes);
  const pipeline::Rings rings{.host_bytes = ring_bytes};
  auto beside =
      open(network, weights_path, threads,
           {.pipeline = Pipeline::two_stage, .tile_bytes_max = piece_bytes_max, .rings = rings});
  if (!beside) return forward_error(std::move(beside));

  const std::vector<float> input = some_input(network);
  const std::span<const float> inputs[] = {input};
  std::vector<uint64_t> alone_ns, beside_ns;
  uint64_t spent_ns = 0;
  const auto is_enough = [&] {
    return passes.passes >= passes_min && (passes.passes >= passes_max || spent_ns >= enough_ns);
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
    add_reads((*beside)->times(), (*beside)->window().units, passes.reads);
    ++passes.passes;
    spent_ns += (*beside)->times().delay_ns();
  }
  passes.beside.longer_ns =
      static_cast<double>(median(beside_ns)) - static_cast<double>(median(alone_ns));
  return passes;
}

uint64_t latency_ns(const Reads& reads, double bytes_per_s) {
  if (reads.alone_ns.empty()) return 0;
  const double bytes =
      static_cast<double>(reads.alone_bytes) / static_cast<double>(reads.alone_ns.size());
  const double took_ns = static_cast<double>(median(reads.alone_ns));
  return static_cast<uint64_t>(std::max(0.0, took_ns - bytes / bytes_per_s * 1e9));
}

}  // namespace

TakenByReads taken_by_reads(const PassesBeside& large, const PassesBeside& small) {
  WP_ASSERT(large.bytes > 0 && large.reads > 0);
  const auto reads = static_cast<double>(large.reads);
  double ns_of_read = 0;
  if (small.reads > large.reads) {
    const auto more_reads = static_cast<double>(small.reads - large.reads);
    const double ns_per_read = (small.longer_ns - large.longer_ns) / more_reads;
    ns_of_read = std::clamp(ns_per_read, 0.0, std::max(0.0, large.longer_ns / reads));
  }
  const double of_bytes_ns = std::max(0.0, large.longer_ns - reads * ns_of_read);
  return {.ns_per_byte = of_bytes_ns / static_cast<double>(large.bytes), .ns_per_read = ns_of_read};
}

Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads) {
  const auto large = measure_passes(network, weights_path, threads, large_piece_bytes);
  if (!large) return tl::make_unexpected(large.error());
  const auto small = measure_passes(network, weights_path, threads, small_piece_bytes);
  if (!small) return tl::make_unexpected(small.error());
  return ReadingCosts{.bytes_per_s = large->bytes_per_s(),
                      .latency_ns = latency_ns(small->reads, large->bytes_per_s()),
                      .taken = taken_by_reads(large->beside, small->beside)};
}

}  // namespace weightpager::infer
