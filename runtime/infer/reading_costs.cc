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
using pipeline::Timeline;
using pipeline::TimeSpan;
using pipeline::UnitTimes;

// Small networks take more passes for the same precision.
constexpr size_t passes_min = 4;
constexpr size_t passes_max = 24;
constexpr uint64_t enough_ns = 500'000'000;
constexpr uint64_t large_piece_bytes = 2 * MiB;
constexpr uint64_t small_piece_bytes = 128 * KiB;
constexpr uint64_t probed_ring_bytes_max = 16 * MiB;
// The time of a smaller read is mostly the disk's latency.
constexpr uint64_t telling_bytes_min = 256 * KiB;
// While a pipeline reads one piece at a time, OpenMP's threads wait until they sleep. Waking them
// makes short kernels slower, so reading would seem to cost less. Networks with short kernels are
// small, so small networks are in memory while kernels are measured alone.
constexpr uint64_t preload_bytes_max = 128 * MiB;
// The time from one kernel to the next while nothing is read (GoogLeNet and SqueezeNet on two
// processors, `infer --trace`, 2026-11-22).
constexpr uint64_t between_kernels_ns = 1'000;

/// The time of each unit's computation, which begins when the unit's weights are read and the
/// kernel before it has ended.
std::vector<TimeSpan> computing(const Timeline& times) {
  std::vector<TimeSpan> spans;
  uint64_t before_ns = times.start_ns;
  for (const UnitTimes& it : times.units) {
    spans.push_back({std::max(before_ns, it.read.finish_ns), it.kernel.finish_ns});
    before_ns = it.kernel.finish_ns;
  }
  return spans;
}

uint64_t computing_ns(const Timeline& times) {
  uint64_t sum_ns = 0;
  for (const TimeSpan& it : computing(times)) sum_ns += it.finish_ns - it.start_ns;
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
  DiskLine disk;  // for these pieces
  size_t passes = 0;
};

// The same network twice: computed while nothing is read, and computed while weights are read as in
// a plan.
struct Pair {
  std::unique_ptr<Inference> alone;
  std::unique_ptr<Inference> beside;
  bool is_alone_in_memory = false;

  std::span<const pipeline::UnitBytes> pieces() const { return beside->window().units; }
};

uint64_t largest_bytes(std::span<const pipeline::UnitBytes> pieces) {
  uint64_t largest = 0;
  for (const pipeline::UnitBytes& it : pieces) largest = std::max(largest, it.length_bytes);
  return largest;
}

// The bytes and reads of a pass with these pieces.
PassesBeside reads_of(std::span<const pipeline::UnitBytes> pieces) {
  PassesBeside it;
  for (const pipeline::UnitBytes& piece : pieces) {
    it.bytes += piece.length_bytes;
    it.reads += piece.length_bytes > 0;
  }
  return it;
}

Result<Pair> open_both(const network::Network& network, const std::string& weights_path,
                       int threads, uint64_t piece_bytes_max) {
  const bool is_small = network.folded_bytes() <= preload_bytes_max;
  auto alone = open(network, weights_path, threads,
                    {.pipeline = is_small ? Pipeline::preload : Pipeline::sequential,
                     .tile_bytes_max = piece_bytes_max});
  if (!alone) return forward_error(std::move(alone));
  const auto& units = (*alone)->window().units;
  if (largest_bytes(units) < std::min(telling_bytes_min, piece_bytes_max)) {
    return fail(weights_path + ": no layer is large enough to tell how fast it is read",
                "leave out the weights and give the speed: --disk GB/S");
  }
  // The ring is much smaller than the weights: so reads follow kernels as in a plan, and do not all
  // begin with the pass.
  const uint64_t ring_bytes =
      round_up(std::max(4 * largest_bytes(units),
                        std::min(probed_ring_bytes_max, reads_of(units).bytes / 8)),
               os_page_bytes);
  const WindowRequest window = {.pipeline = Pipeline::two_stage,
                                .tile_bytes_max = piece_bytes_max,
                                .rings = pipeline::Rings{.host_bytes = ring_bytes},
                                .uses_overlay = false};
  auto beside = open(network, weights_path, threads, window);
  if (!beside) return forward_error(std::move(beside));
  return Pair{std::move(*alone), std::move(*beside), is_small};
}

// The times of passes of both networks. The passes take turns, so both see the same state of the
// machine.
class Measured {
 public:
  Measured(const Pair& pair, const DiskLine& disk) : pair_(pair), disk_(disk) {}

  bool is_enough() const {
    return passes() >= passes_min && (passes() >= passes_max || spent_ns_ >= enough_ns);
  }

  void add_pass() {
    const Timeline& alone = pair_.alone->times();
    alone_ns_.push_back(pair_.is_alone_in_memory
                            ? computing_ns(alone)
                            : kernels_ns(alone) + between_kernels_ns * alone.units.size());
    const Timeline& beside = pair_.beside->times();
    beside_ns_.push_back(computing_ns(beside));
    const auto stretches = busy_stretches(beside, pair_.pieces(), disk_);
    for (const BusyStretch& busy : stretches) busy_ns_ += busy.took_ns();
    busy_beside_ns_ += beside_kernels_ns(stretches, beside);
    spent_ns_ += beside.delay_ns();
  }

  size_t passes() const { return beside_ns_.size(); }

  /// How much longer computing would have taken if the disk had been busy beside kernels only.
  double longer_ns() {
    if (busy_beside_ns_ == 0) return 0;
    const double longer_ns =
        static_cast<double>(median(beside_ns_)) - static_cast<double>(median(alone_ns_));
    return longer_ns * static_cast<double>(busy_ns_) / static_cast<double>(busy_beside_ns_);
  }

 private:
  const Pair& pair_;
  const DiskLine& disk_;
  std::vector<uint64_t> alone_ns_, beside_ns_;
  uint64_t busy_ns_ = 0;
  uint64_t busy_beside_ns_ = 0;
  uint64_t spent_ns_ = 0;
};

Result<Passes> measure_passes(const network::Network& network, const std::string& weights_path,
                              int threads, uint64_t piece_bytes_max) {
  auto pair = open_both(network, weights_path, threads, piece_bytes_max);
  if (!pair) return forward_error(std::move(pair));
  auto disk = measure_disk(weights_path, pair->pieces());
  if (!disk) return forward_error(std::move(disk));

  const std::vector<float> input = some_input(network);
  const std::span<const float> inputs[] = {input};
  Measured measured(*pair, *disk);
  // The first pass does not count: it reads pinned weights and fills caches.
  for (bool is_first = true; !measured.is_enough(); is_first = false) {
    for (Inference* const it : {pair->alone.get(), pair->beside.get()}) {
      if (Status ran = it->run(inputs); !ran) return forward_error(std::move(ran));
    }
    if (!is_first) measured.add_pass();
  }
  Passes passes{reads_of(pair->alone->window().units), *disk, measured.passes()};
  passes.beside.longer_ns = measured.longer_ns();
  return passes;
}

}  // namespace

std::vector<BusyStretch> busy_stretches(const Timeline& times,
                                        std::span<const pipeline::UnitBytes> units,
                                        const DiskLine& disk) {
  WP_ASSERT(times.units.size() == units.size());
  std::vector<BusyStretch> reads;
  for (size_t i = 0; i < units.size(); ++i) {
    const TimeSpan& read = times.units[i].read;
    if (read.finish_ns > 0) reads.push_back({read, units[i].length_bytes});
  }
  std::sort(reads.begin(), reads.end(), [](const BusyStretch& left, const BusyStretch& right) {
    return left.when.start_ns < right.when.start_ns;
  });
  std::vector<BusyStretch> stretches;
  for (const BusyStretch& read : reads) {
    if (stretches.empty() || read.when.start_ns >= stretches.back().when.finish_ns) {
      stretches.push_back(read);
      continue;
    }
    BusyStretch& busy = stretches.back();
    busy.when.finish_ns = std::max(busy.when.finish_ns, read.when.finish_ns);
    busy.bytes += read.bytes;
  }
  for (BusyStretch& it : stretches) {
    const auto took_ns = static_cast<uint64_t>(disk.took_ns(it.bytes));
    it.when.finish_ns = std::min(it.when.finish_ns, it.when.start_ns + took_ns);
  }
  return stretches;
}

uint64_t beside_kernels_ns(std::span<const BusyStretch> stretches, const Timeline& times) {
  uint64_t sum_ns = 0;
  size_t first = 0;
  for (const TimeSpan& it : computing(times)) {
    while (first < stretches.size() && stretches[first].when.finish_ns <= it.start_ns) ++first;
    for (size_t i = first; i < stretches.size(); ++i) {
      const TimeSpan& busy = stretches[i].when;
      if (busy.start_ns >= it.finish_ns) break;
      sum_ns += std::min(busy.finish_ns, it.finish_ns) - std::max(busy.start_ns, it.start_ns);
    }
  }
  return sum_ns;
}

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
  return ReadingCosts{.bytes_per_s = large->disk.bytes_per_s,
                      .latency_ns = static_cast<uint64_t>(large->disk.latency_ns),
                      .taken = taken_by_reads(large->beside, small->beside)};
}

}  // namespace weightpager::infer
