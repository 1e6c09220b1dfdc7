// The thread that waits for the disk where chunks are kept, so that the pager's thread need not.
//
// It compares a chunk that leaves with a kept one, by reading that in pieces past the page cache,
// and writes records of an index and times of use. What is asked for is done in that order.
// Reading 2 MiB takes less time than writing them, and wears nothing.
//
// The thread has the descriptor table of the pager's thread, which starts it. The two share queues
// without a lock (spsc_queue.h), and an eventfd which the pager's sleep ends at.
//
// Cost: a thread that mostly sleeps, and a buffer of 1 MiB. Only `open` allocates, and `note` where
// the thread lags behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/loop/spsc_queue.h"
#include "pager/spill/content_hash.h"
#include "pager/spill/kept_records.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

/// A chunk that leaves, and a kept one.
struct KeptComparison {
  window::ChunkId chunk = window::no_chunk;
  const std::byte* bytes = nullptr;  // nobody writes to them meanwhile
  uint64_t length_bytes = 0;
  int fd = -1;
  uint64_t offset_bytes = 0;
  bool is_direct = true;

  bool is_same = false;
  int error_number = 0;  // of the disk
};

/// What is to be written down.
struct KeptNote {
  int index_fd = -1;
  uint64_t offset_bytes = 0;
  spill::KeptRecordBytes record{};
  /// Instead: the index that was of use. Outlives the worker.
  const std::string* used_index = nullptr;
};

class KeptWorker {
 public:
  KeptWorker() = default;
  ~KeptWorker() { close(); }
  KeptWorker(const KeptWorker&) = delete;
  KeptWorker& operator=(const KeptWorker&) = delete;

  /// Starts the thread.
  Status open();
  /// Writes down what is still to be written down. What was not compared yet is not.
  void close();

  /// Readable when some comparisons are done; -1 before open().
  int fd() const { return done_event_.get(); }
  /// Requires fewer than `comparisons_max` in flight.
  void compare(const KeptComparison& comparison);
  void note(const KeptNote& note);
  /// What has been compared since the last call. Valid until the next call. `is_told`: fd() may be
  /// readable.
  std::span<const KeptComparison> take_done(bool is_told);
  uint32_t in_flight() const { return in_flight_; }

  static constexpr uint32_t comparisons_max = 32;

 private:
  static constexpr uint32_t asked_max = 128;
  static constexpr uint64_t piece_bytes = 1u << 20;

  struct Asked {
    bool is_comparison = false;
    KeptComparison comparison;
    KeptNote note;
  };

  void serve();
  void carry_out(KeptComparison& comparison);
  void ask(const Asked& asked);
  bool hand_over();
  void tell_done();

  SpscQueue<Asked, asked_max> asked_;
  SpscQueue<KeptComparison, comparisons_max> done_;
  std::vector<Asked> waiting_;  // for room in the queue
  std::array<KeptComparison, comparisons_max> taken_;
  std::byte* piece_ = nullptr;
  uint32_t in_flight_ = 0;
  std::atomic<uint32_t> bell_{0};
  std::atomic<bool> is_told_{false};
  std::atomic<bool> is_ending_{false};
  OwnedFd done_event_;
  std::thread thread_;
};

}  // namespace weightpager
