#include "pager/io/drive_choice.h"

#include <algorithm>
#include <cmath>

#include "pager/base/assert.h"

namespace weightpager::io {
namespace {

// So much of the past counts.
constexpr double remembered_bytes = 64 << 20;
// … after a rest in which something was forgotten: the next few answers decide.
constexpr double remembered_after_rest_bytes = 4 << 20;
constexpr double halved_after_ns = 1e9;
constexpr double halvings_max = 10;
// A new delay's part of the average.
constexpr double delay_share = 0.25;

double time_since(uint64_t then_ns, uint64_t now_ns) {
  return static_cast<double>(now_ns - std::min(then_ns, now_ns));
}

}  // namespace

uint32_t DriveChoice::choose(DriveSet candidates, uint64_t length_bytes, uint64_t now_ns) const {
  WP_ASSERT(candidates != 0);
  uint32_t first = drives_max;
  double first_ns = 0;
  for (uint32_t drive = 0; drive < drives_max; ++drive) {
    if ((candidates & drive_bit(drive)) == 0) continue;
    const double ns = expected_ns(drive, length_bytes, now_ns);
    if (first < drives_max && ns >= first_ns) continue;
    first = drive;
    first_ns = ns;
  }
  return first;
}

double DriveChoice::expected_ns(uint32_t drive, uint64_t length_bytes, uint64_t now_ns) const {
  const Drive& it = drives_[drive];
  const bool is_busy = it.in_flight_bytes > 0;
  const double silent_ns = is_busy ? time_since(it.counted_until_ns, now_ns) : 0;
  const double ns_per_byte = (it.busy_ns + silent_ns) / it.came_bytes;
  const auto own_bytes = static_cast<double>(length_bytes);
  const double queued_ns = (static_cast<double>(it.in_flight_bytes) + own_bytes) * ns_per_byte;
  return std::max(queued_ns, it.delay_ns + own_bytes * ns_per_byte) * forgotten(it, now_ns);
}

// What is left of an idle drive's slowness. Of one that was never asked there is nothing to forget.
double DriveChoice::forgotten(const Drive& drive, uint64_t now_ns) {
  if (drive.in_flight_bytes > 0 || drive.counted_until_ns == 0) return 1;
  const double halvings = std::floor(time_since(drive.counted_until_ns, now_ns) / halved_after_ns);
  return std::exp2(-std::min(halvings, halvings_max));
}

void DriveChoice::begin(uint32_t drive, uint64_t length_bytes, uint64_t now_ns) {
  Drive& it = drives_[drive];
  if (it.in_flight_bytes == 0) {
    const double left = forgotten(it, now_ns);
    if (left < 1) {
      const double kept = std::min(1.0, remembered_after_rest_bytes / it.came_bytes);
      it.came_bytes *= kept;
      it.busy_ns *= kept * left;
      it.delay_ns *= left;
    }
    it.alone_since_ns = now_ns;
    it.counted_until_ns = now_ns;
  }
  it.in_flight_bytes += length_bytes;
}

void DriveChoice::end(uint32_t drive, uint64_t length_bytes, uint64_t began_ns, uint64_t now_ns) {
  Drive& it = drives_[drive];
  WP_ASSERT(it.in_flight_bytes >= length_bytes);
  count_time(it, now_ns);
  it.in_flight_bytes -= length_bytes;
  const auto came_bytes = static_cast<double>(length_bytes);
  const double kept = std::max(0.0, 1 - came_bytes / remembered_bytes);
  it.came_bytes = it.came_bytes * kept + came_bytes;
  it.busy_ns *= kept;
  if (it.alone_since_ns != began_ns) return;
  it.alone_since_ns = 0;
  const double own_ns = came_bytes * it.busy_ns / it.came_bytes;
  const double delay_ns = std::max(0.0, time_since(began_ns, now_ns) - own_ns);
  it.delay_ns += (delay_ns - it.delay_ns) * delay_share;
}

void DriveChoice::count_time(Drive& drive, uint64_t now_ns) {
  drive.busy_ns += time_since(drive.counted_until_ns, now_ns);
  drive.counted_until_ns = std::max(drive.counted_until_ns, now_ns);
}

}  // namespace weightpager::io
