#include "tools/disk_beside.h"

namespace weightpager::tools {
namespace {

// Of times, since that is what passes are made of.
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

}  // namespace

void DiskBeside::look(size_t pass) {
  const bool is_end = pass == trace_.pass_begins.size();
  if (!begins_round(pass) && !is_end) return;
  const auto fitted = probe_->fit(trace_.chunk_bytes);
  if (!fitted) problem_ = fitted.error();
  if (fitted) probes_.push_back(*fitted);
}

Result<std::vector<simulate::PassCounts>> DiskBeside::simulate(
    simulate::SimulatorOptions options) const {
  if (problem_) return tl::make_unexpected(*problem_);
  options.pauses_before = [](size_t) { return true; };
  std::vector<simulate::PassCounts> passes;
  for (size_t round = 0; round + 1 < probes_.size(); ++round) {
    const FittedDisk disk = mean(probes_[round], probes_[round + 1]);
    options.disk = disk.disk;
    options.handling.request_ns = disk.request_ns;
    const auto run = weightpager::simulate::simulate(trace_, options);
    if (!run) return tl::make_unexpected(run.error());
    const size_t begin = warm_up_passes_ + round * round_passes;
    const size_t end = std::min(begin + round_passes, run->passes.size());
    for (size_t pass = begin + 1; pass < end; ++pass) passes.push_back(run->passes[pass]);
  }
  return passes;
}

}  // namespace weightpager::tools
