#include "tools/probes/disk_beside.h"

#include <algorithm>

namespace weightpager::tools {

using simulate::PassCounts;

namespace {

// The disk before a round and the disk after it may differ by this factor.
constexpr double alike_at_most = 1.15;

// The mean of times rather than of speeds, because a pass is a sum of times.
FittedDisk mean(const FittedDisk& a, const FittedDisk& b) {
  FittedDisk it = a;
  const double latency_ns =
      (static_cast<double>(a.disk.latency_ns) + static_cast<double>(b.disk.latency_ns)) / 2;
  const double longer_ns = (static_cast<double>(a.disk.latency_ns) * a.disk.jitter +
                            static_cast<double>(b.disk.latency_ns) * b.disk.jitter) /
                           2;
  it.disk.bytes_per_s = 2 / (1 / a.disk.bytes_per_s + 1 / b.disk.bytes_per_s);
  it.disk.latency_ns = static_cast<uint64_t>(latency_ns);
  it.disk.jitter = latency_ns > 0 ? longer_ns / latency_ns : 0;
  it.request_ns = (a.request_ns + b.request_ns) / 2;
  return it;
}

// The times of a single touched chunk, and of one chunk among many: passes wait for these.
double single_read_ns(const FittedDisk& it, uint64_t chunk_bytes) {
  return static_cast<double>(it.disk.latency_ns) * (1 + it.disk.jitter) +
         static_cast<double>(chunk_bytes) / it.disk.bytes_per_s * 1e9;
}

bool are_alike(double a, double b) { return std::max(a, b) <= std::min(a, b) * alike_at_most; }

}  // namespace

bool DiskBeside::counts(size_t round) const {
  const FittedDisk& before = probes_[round];
  const FittedDisk& after = probes_[round + 1];
  return are_alike(before.disk.bytes_per_s, after.disk.bytes_per_s) &&
         are_alike(single_read_ns(before, trace_.chunk_bytes),
                   single_read_ns(after, trace_.chunk_bytes));
}

void DiskBeside::keep_round(size_t round, const std::vector<PassCounts>& passes,
                            std::vector<PassCounts>& kept) const {
  const size_t begin = warm_up_passes_ + round * round_passes;
  const size_t end = std::min(begin + round_passes, passes.size());
  for (size_t pass = begin; pass < end; ++pass) kept.push_back(passes[pass]);
}

std::vector<PassCounts> DiskBeside::counted(const std::vector<PassCounts>& passes) const {
  std::vector<PassCounts> kept;
  for (size_t round = 0; round < rounds(); ++round) {
    if (counts(round)) keep_round(round, passes, kept);
  }
  return kept;
}

void DiskBeside::look(size_t pass) {
  const bool is_end = pass == trace_.pass_begins.size();
  if (!begins_round(pass) && !is_end) return;
  const auto fitted = probe_->fit(trace_.chunk_bytes);
  if (!fitted) problem_ = fitted.error();
  if (fitted) probes_.push_back(*fitted);
}

Result<std::vector<PassCounts>> DiskBeside::simulate(simulate::SimulatorOptions options) const {
  if (problem_) return tl::make_unexpected(*problem_);
  options.pauses_before = [](size_t) { return true; };
  std::vector<PassCounts> passes;
  for (size_t round = 0; round < rounds(); ++round) {
    if (!counts(round)) continue;
    const FittedDisk disk = mean(probes_[round], probes_[round + 1]);
    options.disk = disk.disk;
    options.handling.request_ns = disk.request_ns;
    const auto run = weightpager::simulate::simulate(trace_, options);
    if (!run) return tl::make_unexpected(run.error());
    keep_round(round, run->passes, passes);
  }
  return passes;
}

}  // namespace weightpager::tools
