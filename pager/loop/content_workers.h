// Threads that go through the bytes of whole chunks, so that the pager's thread need not.
//
// Problem. A chunk of spilled memory that leaves is hashed, and one that is read from the middle of
// a disk's sector is copied to its place. Either takes as long as a fast disk takes to read the
// chunk, and so does getting memory for a chunk that begins as zeros, or longer: a virtual
// machine's host may have to find the memory first. Done by the pager's thread, this bounds how
// fast chunks come and go, and faults wait for it.
//
// Idea. Two threads do it. The pager's thread hands out the work by a queue without a lock, and
// hears by an eventfd, which its own sleep ends at, that some is done. While a worker has a chunk,
// the chunk is `reading` or `leaving`, and so in nobody's sight: nobody else can write to the
// bytes.
//
// The workers have the signals, the memory and the descriptor table of the pager's thread, which
// starts them: none of the engine's. Where no thread can be had, and where the queues are full, the
// pager's thread does the work itself.
//
// Cost: two threads that sleep, or work as the pager's thread otherwise would; a wake-up each way.
// Only `open` allocates.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/loop/spsc_queue.h"
#include "pager/spill/content_hash.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

/// What is to be done with the bytes of a chunk, in this order, and what came of it.
struct ContentWork {
  window::ChunkId chunk = window::no_chunk;
  bool is_leaving = false;  // it is Spilling's work, or else that of FileReads
  std::byte* bytes = nullptr;
  uint64_t length_bytes = 0;
  /// All bytes become zeros first. If they have no memory yet, they get it.
  bool zeroes = false;
  /// `copied_bytes` bytes come from here first; nullptr: they are there.
  const std::byte* source = nullptr;
  uint64_t copied_bytes = 0;
  bool looks_for_zeros = false;    // and hashes nothing that is all zeros
  bool may_be_unfinished = false;  // hashes nothing that has a page of zeros
  bool looks_for_zero_page = false;
  bool hashes = false;

  bool is_all_zero = false;
  bool has_zero_page = false;  // where that was looked for, and not all are
  bool is_unfinished = false;
  spill::ContentHash hash;
};

/// On the calling thread.
void carry_out(ContentWork& work);

class ContentWorkers {
 public:
  ContentWorkers() = default;
  ~ContentWorkers() { close(); }
  ContentWorkers(const ContentWorkers&) = delete;
  ContentWorkers& operator=(const ContentWorkers&) = delete;

  /// Starts the threads. Fails if there is no descriptor to hear from them by.
  Status open();
  /// Returns when the threads have ended. What they had not begun is not done.
  void close();

  /// Readable when some work is done; -1 before open().
  int fd() const { return done_event_.get(); }
  /// Whether another thread would do the next work.
  bool has_room() { return least_busy() != nullptr; }
  /// Done later, by another thread, or at once where there is none that has room for it: the caller
  /// takes the work back from take_done(), or (false is returned) has it done already.
  bool start(ContentWork& work);
  /// What has been done since the last call. Valid until the next call. `is_told`: fd() may be
  /// readable.
  std::span<const ContentWork> take_done(bool is_told);
  /// Started, and not taken back.
  uint32_t in_flight() const { return in_flight_; }

 private:
  static constexpr uint32_t workers_max = 2;
  static constexpr uint32_t places = 32;  // of each queue

  struct Worker {
    SpscQueue<ContentWork, places> asked;
    SpscQueue<ContentWork, places> done;
    std::atomic<uint32_t> bell{0};  // rung when something is asked
    std::thread thread;
    uint32_t in_flight = 0;  // the pager's thread only
  };

  Worker* least_busy();
  void serve(Worker& worker);
  void tell_done();

  std::array<Worker, workers_max> workers_;
  std::array<ContentWork, workers_max * places> taken_;
  uint32_t in_flight_ = 0;
  OwnedFd done_event_;
  std::atomic<bool> is_told_{false};
  std::atomic<bool> is_ending_{false};
};

}  // namespace weightpager
