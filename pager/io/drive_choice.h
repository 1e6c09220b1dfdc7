// Which of several drives answers a read first.
//
// Problem. Copies of a model lie on drives of different speeds. Nobody knows the speeds beforehand,
// and they change: another program reads, a network is slow, a drive hangs.
//
// Idea. A drive works off what it is asked, so a read comes when the drive has delivered all bytes
// that are in flight there and the read's own; it never comes sooner than a read of an idle drive
// does. Both are measured: the rate as bytes that came by the time in which the drive had something
// to do, of the last 64 MiB or so, and the delay of reads that found the drive idle. Time without
// an answer counts as it passes, so a drive that hangs is slower from moment to moment and is asked
// no more. Where reads are plenty, each drive gets its share by its rate, and all are busy.
//
// A drive that was found slow would never be asked again. So what was measured of an idle drive is
// forgotten: each second it counts as twice as fast.
//
// Pure: the clock is the caller's. Cost: some ten nanoseconds a read; allocates nothing.
#pragma once

#include <array>
#include <cstdint>

namespace weightpager::io {

/// The drive of the model itself is drive 0; mirror i (from 1 on) is drive i.
inline constexpr uint32_t drives_max = 4;
inline constexpr uint32_t mirrors_max = drives_max - 1;

/// Several drives, as bits.
using DriveSet = uint32_t;
constexpr DriveSet drive_bit(uint32_t drive) { return DriveSet{1} << drive; }

class DriveChoice {
 public:
  /// The drive among `candidates` that would be the first to bring so many bytes; of equal ones the
  /// one with the least number. Requires a candidate.
  uint32_t choose(DriveSet candidates, uint64_t length_bytes, uint64_t now_ns) const;

  /// The drive is asked for a read.
  void begin(uint32_t drive, uint64_t length_bytes, uint64_t now_ns);
  /// The read that was begun at `began_ns` has ended, however that went.
  void end(uint32_t drive, uint64_t length_bytes, uint64_t began_ns, uint64_t now_ns);

  /// How long a read of so many bytes would take.
  double expected_ns(uint32_t drive, uint64_t length_bytes, uint64_t now_ns) const;

 private:
  struct Drive {
    uint64_t in_flight_bytes = 0;
    // What came, and in which time, with the past fading away. At first a guess of 4 GB/s that the
    // first answers outweigh: a drive that was never asked is asked soon.
    double came_bytes = 2 << 20;
    double busy_ns = 5e5;
    // What a read of an idle drive takes beyond its bytes' time.
    double delay_ns = 0;
    uint64_t counted_until_ns = 0;  // busy_ns has the time up to then
    uint64_t alone_since_ns = 0;    // when the read began that found the drive idle; 0: none
  };

  static double forgotten(const Drive& drive, uint64_t now_ns);
  static void count_time(Drive& drive, uint64_t now_ns);

  std::array<Drive, drives_max> drives_;
};

}  // namespace weightpager::io
