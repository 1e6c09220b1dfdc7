#include "pager/simulate/disk_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace weightpager::simulate {
namespace {

// Bandwidths of sequential reads of chunks, from data sheets and reviews, and latencies of single
// reads.
const std::array<DiskModel, 4> presets{{
    {"nvme-gen4", 7.0e9, 80'000, 16, 0.1},
    {"nvme-gen5", 14.0e9, 60'000, 16, 0.1},
    {"sata", 0.55e9, 150'000, 16, 0.2},
    {"emmc", 0.30e9, 400'000, 2, 0.5},
}};

}  // namespace

std::span<const DiskModel> disk_presets() { return presets; }

Result<DiskModel> disk_by_name(std::string_view name) {
  for (const DiskModel& it : presets) {
    if (it.name == name) return it;
  }
  std::string known;
  for (const DiskModel& it : presets) known += it.name + ", ";
  const std::string hint = "there are " + known +
                           "a speed (3.5GB/s), or a file that `weightpager "
                           "bench disk --json FILE` wrote";
  double gb_per_s = 0;
  const char* const end = name.data() + name.size();
  const auto [unit, error] = std::from_chars(name.data(), end, gb_per_s);
  const bool is_speed = error == std::errc() && std::string_view(unit, end - unit) == "GB/s";
  if (!is_speed || !(gb_per_s > 0 && gb_per_s <= 1e6)) {
    return fail("disk " + std::string(name) + ": unknown", hint);
  }
  DiskModel disk = presets.front();
  disk.name = name;
  disk.bytes_per_s = gb_per_s * 1e9;
  return disk;
}

uint64_t SimulatedDisk::latency_ns() {
  if (model_.jitter == 0) return model_.latency_ns;
  // Not std::exponential_distribution, whose numbers differ between standard libraries.
  const double uniform = static_cast<double>((random_() >> 11) + 1) * 0x1p-53;
  const double factor = 1 - model_.jitter * std::log(uniform);
  return static_cast<uint64_t>(static_cast<double>(model_.latency_ns) * factor);
}

void SimulatedDisk::start(uint64_t tag, uint64_t length_bytes, uint64_t now_ns) {
  // The device has worked on since the last call.
  while (!at_device_.empty() && next_answer_ns() <= now_ns) finish_next();
  const Request request{tag, length_bytes};
  const bool has_place = model_.answers_together || at_device_.size() < model_.queue_depth;
  if (has_place) return begin(request, now_ns);
  waiting_.push_back(request);
}

void SimulatedDisk::begin(const Request& request, uint64_t now_ns) {
  const auto transfer_ns = static_cast<uint64_t>(
      std::llround(static_cast<double>(request.length_bytes) / model_.bytes_per_s * 1e9));
  bus_free_ns_ = std::max(now_ns + latency_ns(), bus_free_ns_) + transfer_ns;
  at_device_.push_back({request.tag, now_ns, bus_free_ns_});
}

uint64_t SimulatedDisk::next_answer_ns() const {
  return model_.answers_together ? bus_free_ns_ : at_device_.front().finished_ns;
}

// The read's place goes to the first read that waits for one.
void SimulatedDisk::finish_next() {
  Finished finished = at_device_.front();
  finished.finished_ns = next_answer_ns();
  at_device_.pop_front();
  finished_.push_back(finished);
  if (waiting_.empty()) return;
  begin(waiting_.front(), finished.finished_ns);
  waiting_.pop_front();
}

SimulatedDisk::Finished SimulatedDisk::take_finished() {
  if (finished_.empty()) finish_next();
  const Finished finished = finished_.front();
  finished_.pop_front();
  return finished;
}

}  // namespace weightpager::simulate
