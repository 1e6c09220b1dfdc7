// See disk_arbiter.h.
#include "runtime/budget/disk_arbiter.h"

#include <algorithm>

#include "pager/base/assert.h"

namespace weightpager::budget {

ArbiterSettings arbiter_settings(std::span<const uint64_t> periods_ns,
                                 std::span<const double> urgencies) {
  const auto is_due = [](uint64_t period_ns) { return period_ns > 0; };
  const auto is_special = [](double urgency) { return urgency != 1; };
  ArbiterSettings settings;
  if (std::none_of(periods_ns.begin(), periods_ns.end(), is_due) &&
      std::none_of(urgencies.begin(), urgencies.end(), is_special)) {
    settings.overtaking_bytes_max = 0;
  }
  return settings;
}

DiskArbiter::DiskArbiter(uint32_t networks, const ArbiterSettings& settings)
    : settings_(settings), queues_(networks) {}

void DiskArbiter::begin_waiting(Queue& queue) {
  queue.first_since = turns_++;
  queue.overtaken_bytes = 0;
}

void DiskArbiter::ask(uint32_t network, const DiskRead& read) {
  Queue& queue = queues_[network];
  if (queue.reads.empty()) begin_waiting(queue);
  queue.reads.push_back(read);
}

void DiskArbiter::on_finished(uint64_t size_bytes) {
  WP_ASSERT(size_bytes <= in_flight_bytes_);
  in_flight_bytes_ -= size_bytes;
}

void DiskArbiter::leave(uint32_t network) { queues_[network].reads.clear(); }

// Reads that were overtaken enough come before all others, the longest wait first. The rest come by
// slack.
bool DiskArbiter::goes_before(const Queue& a, const Queue& b) const {
  const bool a_waited = a.overtaken_bytes >= settings_.overtaking_bytes_max;
  const bool b_waited = b.overtaken_bytes >= settings_.overtaking_bytes_max;
  if (a_waited != b_waited) return a_waited;
  const int64_t a_start_ns = a.reads.front().latest_start_ns;
  const int64_t b_start_ns = b.reads.front().latest_start_ns;
  if (!a_waited && a_start_ns != b_start_ns) return a_start_ns < b_start_ns;
  return a.first_since < b.first_since;
}

std::optional<DiskArbiter::Start> DiskArbiter::next() {
  Queue* chosen = nullptr;
  for (Queue& queue : queues_) {
    if (queue.reads.empty()) continue;
    if (chosen == nullptr || goes_before(queue, *chosen)) chosen = &queue;
  }
  if (chosen == nullptr) return std::nullopt;
  const DiskRead read = chosen->reads.front();
  // The chosen read waits for room; a smaller read behind it does not slip in.
  const bool has_room = in_flight_bytes_ + read.size_bytes <= settings_.in_flight_bytes_max;
  if (in_flight_bytes_ > 0 && !has_room) return std::nullopt;
  chosen->reads.pop_front();
  in_flight_bytes_ += read.size_bytes;
  for (Queue& queue : queues_) {
    if (&queue != chosen && !queue.reads.empty()) queue.overtaken_bytes += read.size_bytes;
  }
  if (!chosen->reads.empty()) begin_waiting(*chosen);
  return Start{static_cast<uint32_t>(chosen - queues_.data()), read};
}

// Backwards: a read must end before its own kernel must start, and before the next read must start.
std::vector<uint64_t> latest_starts_before_deadline(std::span<const pipeline::UnitCosts> costs) {
  std::vector<uint64_t> before_ns(costs.size());
  uint64_t kernels_ns = 0, next_read_ns = 0;
  for (size_t i = costs.size(); i-- > 0;) {
    kernels_ns += costs[i].kernel_ns;
    before_ns[i] = kernels_ns;
    if (costs[i].size_bytes == 0) continue;
    next_read_ns = std::max(kernels_ns, next_read_ns) + costs[i].read_ns;
    before_ns[i] = next_read_ns;
  }
  return before_ns;
}

}  // namespace weightpager::budget
