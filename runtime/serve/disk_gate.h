// One disk for several networks, live: reads go through a gate, where the arbiter lets the most
// urgent one pass.
//
// Problem. What every network starts would go to the disk at once, and whoever reads far ahead
// makes the others wait.
//
// Idea. A reader around the only real one. What an executor starts is cut into pieces and put
// before the arbiter (budget/disk_arbiter.h), with the latest time at which it may start: the
// inference's deadline, minus what is left to do from there on. Few bytes are at the disk at a
// time, so whoever is urgent waits for few.
//
// There is no thread for that: a thread that is woken beside those that compute costs them 80 µs.
// A network comes by at the beginning of each of its kernels (Driver::caller), and then does what
// there is to do for all: it takes in whatever has arrived, and starts whatever may pass now. So a
// network with few long kernels is served by those with many short ones. Who has nothing to compute
// sleeps in the reader and does the same; a second one sleeps until the first one has something for
// it.
//
// Cost: a lock, and a look at the reader, per kernel; nobody is woken but who has nothing to do.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/io/reader.h"
#include "runtime/budget/disk_arbiter.h"

namespace weightpager::serve {

/// Pieces in which reads pass.
inline constexpr uint32_t piece_bytes_max = 2u << 20;

/// Thread-safe.
class DiskGate {
 public:
  DiskGate(uint32_t networks, const budget::ArbiterSettings& settings);
  ~DiskGate();

  /// Of an executor that its caller drives (ExecutorOptions::open_reader), one at a time per
  /// network: it watches no descriptor, and its waits are without limit or only look. Reads are
  /// tagged with the unit's number, which begins at 0 with each reader. The gate outlives it.
  Result<std::unique_ptr<io::Reader>> open_reader(uint32_t network,
                                                  const io::ReaderOptions& options);

  /// How long before the deadline each unit's read has to start, by index
  /// (budget::latest_starts_before_deadline). Before each reader's first read.
  void set_units(uint32_t network, std::vector<uint64_t> starts_before_deadline_ns);
  /// An inference begins, the first after `set_units` with unit 0. What is read ahead for those
  /// that follow is due a period later each.
  void begin_inference(uint32_t network, int64_t deadline_ns, uint64_t period_ns);

  /// Bytes that have passed.
  uint64_t passed_bytes(uint32_t network) const;

 private:
  friend class GatedReader;
  /// A read, and what has arrived of it.
  struct ReadInPieces {
    io::Read read;
    uint32_t pieces_left = 0;  // 0: a free place
    uint64_t good_bytes = 0;   // without a gap
    int error_number = 0;
  };
  struct Network {
    bool has_reader = false;
    std::vector<uint64_t> starts_before_deadline_ns;
    uint64_t inferences = 0;  // begun, since set_units
    int64_t deadline_ns = 0;
    uint64_t period_ns = 0;
    std::vector<ReadInPieces> reads;
    std::vector<io::Completion> completions;  // that it has not fetched
    uint32_t pieces_under_way = 0;            // let through, and not arrived
    uint64_t passed_bytes = 0;
  };

  Status open_disk(const io::ReaderOptions& options) WP_REQUIRES(mutex_);
  void ask(uint32_t network, const io::Read& read);
  /// Does what there is to do, unless the one that sleeps in the reader will.
  void come_by() WP_REQUIRES(mutex_);
  void come_by_until(const std::function<bool()>& is_done) WP_REQUIRES(mutex_);
  void sleep() WP_REQUIRES(mutex_);
  void start_pieces() WP_REQUIRES(mutex_);
  void take_pieces(std::span<const io::Completion> pieces) WP_REQUIRES(mutex_);
  void let_through() WP_REQUIRES(mutex_);
  /// Reads that are not under way are forgotten; then those that are may be waited for.
  void leave(uint32_t network);
  static int64_t latest_start_ns(const Network& network, uint64_t unit);

  mutable Mutex mutex_;
  Condition changed_;  // somebody has slept, and wakes others for what it has found
  budget::DiskArbiter arbiter_ WP_GUARDED_BY(mutex_);
  std::vector<Network> networks_ WP_GUARDED_BY(mutex_);
  OwnedFd bell_;  // wakes who sleeps in the reader
  // Opened with the first reader, and used under the mutex, or by the one that sleeps in it.
  std::unique_ptr<io::Reader> disk_;
  bool is_asleep_ WP_GUARDED_BY(mutex_) = false;          // somebody, in the reader
  std::deque<uint64_t> may_start_ WP_GUARDED_BY(mutex_);  // tags of pieces
};

}  // namespace weightpager::serve
