// One disk for several networks, live: reads go through a gate, where the arbiter lets the most
// urgent one pass.
//
// Problem. Every network's executor has a thread and a reader of its own. What they start goes to
// the disk at once, and whoever reads far ahead makes the others wait.
//
// Idea. A reader around each reader. What an executor starts is cut into pieces and put before the
// arbiter (budget/disk_arbiter.h), with the latest time at which it may start: the inference's
// deadline, minus what is left to do from there on. Whoever asks, or sees a piece arrive, looks
// which pieces may pass now, and rings for the readers whose they are; each starts its own. Few
// bytes are at the disk at a time, so whoever is urgent waits for few.
//
// Cost: a lock for some microseconds per piece of 2 MiB, and a wake-up where another network's
// piece is let through.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

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

  /// Of an executor (ExecutorOptions::open_reader), one at a time per network. Reads are tagged
  /// with the unit's number, which begins at 0 with each reader. `wait` may wake early, with
  /// nothing to tell. The gate outlives it.
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
  struct Network {
    OwnedFd bell;
    bool has_reader = false;
    std::vector<uint64_t> starts_before_deadline_ns;
    uint64_t inferences = 0;  // begun, since set_units
    int64_t deadline_ns = 0;
    uint64_t period_ns = 0;
    std::deque<uint64_t> may_start;  // tags of pieces
    uint64_t passed_bytes = 0;
  };

  /// Of a unit's read; asks for all its pieces.
  void ask(uint32_t network, uint64_t unit, uint64_t first_tag, uint32_t length_bytes);
  void on_arrived(uint32_t network, uint64_t size_bytes);
  std::deque<uint64_t> take_startable(uint32_t network);
  /// Pieces that have not passed are forgotten; then those that have may be waited for.
  void leave(uint32_t network);
  void close(uint32_t network);
  /// With the lock held: `asking` needs no bell.
  void let_through(uint32_t asking);
  int64_t latest_start_ns(const Network& network, uint64_t unit) const;

  mutable std::mutex mutex_;
  budget::DiskArbiter arbiter_;
  std::vector<Network> networks_;
};

}  // namespace weightpager::serve
