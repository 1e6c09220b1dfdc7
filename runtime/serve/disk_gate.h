// Shares one disk among several networks while they run: reads go through a gate, and the arbiter
// lets the most urgent one pass.
//
// Problem. Without a gate, the reads of all networks go to the disk at once, and a network that
// reads far ahead makes the others wait.
//
// Idea. Each network has a reader of its own in front of the only real one. Reads that an executor
// starts are cut into pieces and put before the arbiter (budget/disk_arbiter.h). Each piece has a
// latest time at which it may start: the inference's deadline, less the time for the work that is
// left from there on. Few bytes are at the disk at a time, so an urgent read waits for few bytes.
//
// The gate has no thread, because waking one beside threads that compute costs these 80 µs. Each
// network comes by at the beginning of each of its kernels (Driver::caller), and then does the
// gate's work for all networks: it takes in the pieces that have arrived, and starts the pieces
// that may pass now. So networks with many short kernels serve a network with few long ones. A
// network that has nothing to compute sleeps in the real reader and does the same when it wakes.
// Further networks without work sleep until the first one wakes them.
//
// Cost: a lock and a look at the reader per kernel. Only networks that have nothing to compute are
// woken.
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

/// Reads pass in pieces of at most this size.
inline constexpr uint32_t piece_bytes_max = 2u << 20;

/// Thread-safe.
class DiskGate {
 public:
  DiskGate(uint32_t networks, const budget::ArbiterSettings& settings);
  ~DiskGate();

  /// Opens a reader for an executor that its caller drives (ExecutorOptions::open_reader). Each
  /// network has at most one reader at a time. The reader watches no descriptor, and its `wait`
  /// either waits without limit or does not wait at all. A read's tag is the unit's number, which
  /// begins at 0 with each reader. The gate outlives the reader.
  Result<std::unique_ptr<io::Reader>> open_reader(uint32_t network,
                                                  const io::ReaderOptions& options);

  /// How long before the deadline each unit's read has to start, by index
  /// (budget::latest_starts_before_deadline). To be called before each reader's first read.
  void set_units(uint32_t network, std::vector<uint64_t> starts_before_deadline_ns);
  /// To be called when an inference begins; the first one after `set_units` begins with unit 0.
  /// Units that are read ahead for the inferences that follow are due one period later each.
  void begin_inference(uint32_t network, int64_t deadline_ns, uint64_t period_ns);

  /// Bytes of this network that the disk has read.
  uint64_t passed_bytes(uint32_t network) const;

 private:
  friend class GatedReader;
  /// A read, and how much of it has arrived.
  struct ReadInPieces {
    io::Read read;
    uint32_t pieces_left = 0;  // 0: a free place
    uint64_t good_bytes = 0;   // from the read's beginning, without a gap
    int error_number = 0;
  };
  struct Network {
    bool has_reader = false;
    std::vector<uint64_t> starts_before_deadline_ns;
    uint64_t inferences = 0;  // begun, since set_units
    int64_t deadline_ns = 0;
    uint64_t period_ns = 0;
    std::vector<ReadInPieces> reads;
    std::vector<io::Completion> completions;  // finished reads that it has not fetched
    uint32_t pieces_under_way = 0;            // let through, and not arrived
    uint64_t passed_bytes = 0;
  };

  Status open_disk(const io::ReaderOptions& options) WP_REQUIRES(mutex_);
  void ask(uint32_t network, const io::Read& read);
  /// Does the gate's work, unless a thread sleeps in the reader: then that thread will do it.
  void come_by() WP_REQUIRES(mutex_);
  void come_by_until(const std::function<bool()>& is_done) WP_REQUIRES(mutex_);
  void sleep() WP_REQUIRES(mutex_);
  void start_pieces() WP_REQUIRES(mutex_);
  void take_pieces(std::span<const io::Completion> pieces) WP_REQUIRES(mutex_);
  void let_through() WP_REQUIRES(mutex_);
  /// Forgets the network's pieces that are not under way, and waits for those that are.
  void leave(uint32_t network);
  static int64_t latest_start_ns(const Network& network, uint64_t unit);

  mutable Mutex mutex_;
  Condition changed_;  // the thread that slept in the reader has taken in pieces
  budget::DiskArbiter arbiter_ WP_GUARDED_BY(mutex_);
  std::vector<Network> networks_ WP_GUARDED_BY(mutex_);
  OwnedFd bell_;  // wakes the thread that sleeps in the reader
  // Opened with the first network's reader. Used under the mutex, or by the thread that sleeps in
  // it.
  std::unique_ptr<io::Reader> disk_;
  bool is_asleep_ WP_GUARDED_BY(mutex_) = false;          // a thread sleeps in the reader
  std::deque<uint64_t> may_start_ WP_GUARDED_BY(mutex_);  // tags of pieces
};

}  // namespace weightpager::serve
