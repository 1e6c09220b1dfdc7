#include "runtime/infer/disk_line.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/open_reader.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/mirrored_ring.h"
#include "runtime/pipeline/read_line.h"
#include "runtime/pipeline/unit_read.h"

namespace weightpager::infer {
namespace {

using pipeline::ReadLine;
using pipeline::UnitBytes;
using telemetry::monotonic_ns;

// The error of a stretch's time grows with its bytes and with a fixed time, which is as long as
// this many bytes take. Shorter stretches say little about the speed, and are as likely to be
// disturbed.
constexpr double fixed_bytes = 512 * KiB;
// Stretches that are nearly alike do not show the latency. They are alike if the variance of their
// lengths is a smaller share of the mean square than this.
constexpr double variety_min = 0.05;

// Reads of a stretch: one, or as many as a ring lets begin together.
constexpr size_t stretch_reads[] = {1, 2, 4, 8, 16};
constexpr uint64_t stretch_bytes_max = 16 * MiB;
constexpr size_t rounds_min = 3;
constexpr size_t rounds_max = 15;
constexpr uint64_t rounds_ns_enough = 300'000'000;

/// Units that follow each other; each has bytes.
using UnitsOfStretch = std::span<const UnitBytes>;

uint64_t bytes_of(UnitsOfStretch units) {
  uint64_t sum_bytes = 0;
  for (const UnitBytes& it : units) sum_bytes += it.length_bytes;
  return sum_bytes;
}

std::vector<UnitsOfStretch> cut_into_stretches(std::span<const UnitBytes> units) {
  std::vector<UnitsOfStretch> stretches;
  for (size_t first = 0; first < units.size();) {
    const size_t reads_max = stretch_reads[stretches.size() % std::size(stretch_reads)];
    size_t reads = 1;
    while (reads < reads_max && first + reads < units.size() &&
           bytes_of(units.subspan(first, reads + 1)) <= stretch_bytes_max) {
      ++reads;
    }
    stretches.push_back(units.subspan(first, reads));
    first += reads;
  }
  return stretches;
}

/// Reads stretches, one after the other, into the same memory. This is a ring's memory, as in a
/// pipeline, because the cost of a read depends on the memory.
class StretchReader {
 public:
  static Result<StretchReader> open(const std::string& path, std::span<const UnitBytes> units,
                                    uint64_t memory_bytes) {
    auto file = io::ModelFile::open(path);
    if (!file) return forward_error(std::move(file));
    auto memory = pipeline::MirroredRing::make(memory_bytes);
    if (!memory) return forward_error(std::move(memory));
    auto reader = io::open_best_reader(
        pipeline::reader_options(units, io::device_limits(file->fd()).read_bytes));
    if (!reader) return forward_error(std::move(reader));
    return StretchReader(path, std::move(*file), std::move(*memory), std::move(*reader));
  }

  Result<BusyStretch> read(UnitsOfStretch units) {
    uint64_t to_bytes = 0;
    for (size_t i = 0; i < units.size(); ++i) {
      line_.put({i, units[i].length_bytes, {.offset_bytes = to_bytes}});
      to_bytes += units[i].length_bytes;
    }
    std::optional<Error> failure;
    BusyStretch stretch = {.when = {.start_ns = monotonic_ns()}, .bytes = to_bytes};
    while (!line_.is_empty() || reader_->reads_in_flight() > 0) {
      while (line_.may_take()) start(units, line_.take());
      for (const io::Completion& it : reader_->wait(-1).completions) {
        line_.on_finished(units[it.tag].length_bytes);
        if (is_short(units[it.tag], it)) failure = short_read(path_, units[it.tag], it);
      }
    }
    stretch.when.finish_ns = monotonic_ns();
    if (failure) return tl::make_unexpected(*failure);
    return stretch;
  }

 private:
  StretchReader(std::string path, io::ModelFile file, pipeline::MirroredRing memory,
                std::unique_ptr<io::Reader> reader)
      : path_(std::move(path)),
        file_(std::move(file)),
        memory_(std::move(memory)),
        reader_(std::move(reader)) {}

  void start(UnitsOfStretch units, const ReadLine::UnitRead& read) {
    reader_->start(pipeline::read_of(read.unit, units[read.unit], file_.fd(),
                                     memory_.at(read.to.offset_bytes)));
  }

  std::string path_;
  io::ModelFile file_;
  pipeline::MirroredRing memory_;
  ReadLine line_;
  std::unique_ptr<io::Reader> reader_;  // writes into the memory, so it is destroyed first
};

}  // namespace

DiskLine fit_disk(std::span<const BusyStretch> stretches) {
  WP_ASSERT(!stretches.empty());
  // Weighted least squares: the error of a stretch grows with its bytes.
  double weights = 0, by_bytes = 0, by_bytes_squared = 0, by_ns = 0, by_both = 0;
  double all_bytes = 0, all_ns = 0;
  for (const BusyStretch& it : stretches) {
    const auto bytes = static_cast<double>(it.bytes);
    const auto took_ns = static_cast<double>(it.took_ns());
    const double weight = 1 / (bytes + fixed_bytes);
    weights += weight;
    by_bytes += weight * bytes;
    by_bytes_squared += weight * bytes * bytes;
    by_ns += weight * took_ns;
    by_both += weight * bytes * took_ns;
    all_bytes += bytes;
    all_ns += took_ns;
  }
  const double determinant = weights * by_bytes_squared - by_bytes * by_bytes;
  const bool are_alike = determinant < variety_min * weights * by_bytes_squared;
  const double latency_ns =
      are_alike ? 0 : (by_ns * by_bytes_squared - by_bytes * by_both) / determinant;
  const double ns_per_byte = are_alike ? 0 : (weights * by_both - by_bytes * by_ns) / determinant;
  if (latency_ns > 0 && ns_per_byte > 0) return {1e9 / ns_per_byte, latency_ns};
  return {all_bytes / all_ns * 1e9, 0};
}

Result<DiskLine> measure_disk(const std::string& weights_path, std::span<const UnitBytes> units) {
  std::vector<UnitBytes> with_bytes;
  for (const UnitBytes& it : units) {
    if (it.length_bytes > 0) with_bytes.push_back(it);
  }
  WP_ASSERT(!with_bytes.empty());
  const std::vector<UnitsOfStretch> cut = cut_into_stretches(with_bytes);
  uint64_t longest_bytes = 0;
  for (const UnitsOfStretch it : cut) longest_bytes = std::max(longest_bytes, bytes_of(it));
  auto reader =
      StretchReader::open(weights_path, with_bytes, round_up(longest_bytes, os_page_bytes));
  if (!reader) return forward_error(std::move(reader));

  std::vector<std::vector<uint64_t>> took_ns(cut.size());
  const uint64_t began_ns = monotonic_ns();
  for (size_t round = 0; round < rounds_max; ++round) {
    if (round >= rounds_min && monotonic_ns() - began_ns >= rounds_ns_enough) break;
    for (size_t i = 0; i < cut.size(); ++i) {
      const auto stretch = reader->read(cut[i]);
      if (!stretch) return tl::make_unexpected(stretch.error());
      took_ns[i].push_back(stretch->took_ns());
    }
  }
  std::vector<BusyStretch> ordinary;
  for (size_t i = 0; i < cut.size(); ++i) {
    ordinary.push_back({{.start_ns = 0, .finish_ns = median(took_ns[i])}, bytes_of(cut[i])});
  }
  return fit_disk(ordinary);
}

}  // namespace weightpager::infer
