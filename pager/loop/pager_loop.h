// The pager's thread: one flat loop that serves the faults of all regions from one window.
//
// Way of a fault: fault/ → FaultIntake → policy/ says what → FileReads brings it into memory →
// ChunkMover shows it → the engine runs on. Start reading at PagerLoop::serve (pager_loop.cc).
//
// The loop owns seven parts, each with a file of its own, and five activities that work on them:
//
//     ServedFiles    files and regions, and whose each chunk is
//     Waiters        threads that stand still, and for how long
//     WindowMemory   the window's size, and the memory behind it
//     PolicyHost     which policy decides, and what it is told
//     TouchRecorder  what is written down of touches and steps
//     SpillStore     where memory of the engine's own lies while it is not in the window
//     ContentWorkers threads that go through the bytes of chunks
//
//     FaultIntake    takes faults; a ready chunk is shown at once
//     FileReads      reads chunks, and takes what has arrived
//     Spilling       writes memory of the engine's own out before it goes
//     ChunkMover     shows, hides, evicts and fails chunks
//     RegionCommands does what engines and guests ask for
//
// The thread has a file descriptor table of its own: an engine that closes descriptors it does not
// know (daemons do) cannot close the userfaultfd, which would turn absent chunks into zeros. It
// takes no lock and allocates nothing while it serves faults; engine threads talk to it by
// commands, which lie on their stacks, and ring its doorbell (fault/doorbell.h).
#pragma once

#include <cstdint>
#include <future>
#include <span>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/fault/command_stack.h"
#include "pager/fault/doorbell.h"
#include "pager/loop/address_spaces.h"
#include "pager/loop/chunk_mover.h"
#include "pager/loop/content_workers.h"
#include "pager/loop/fault_intake.h"
#include "pager/loop/file_reads.h"
#include "pager/loop/pager_options.h"
#include "pager/loop/pager_view.h"
#include "pager/loop/policy_host.h"
#include "pager/loop/region_commands.h"
#include "pager/loop/served_files.h"
#include "pager/loop/spill_store.h"
#include "pager/loop/spilling.h"
#include "pager/loop/touch_recorder.h"
#include "pager/loop/waiters.h"
#include "pager/loop/window_memory.h"

namespace weightpager {

class PagerLoop {
 public:
  explicit PagerLoop(const PagerOptions& options);

  /// The thread's function: opens everything, says in `opened` how that went, and serves until
  /// stop().
  void run(std::promise<Status>& opened);

  /// Any other thread: calls `act()` on the loop's thread, between two faults, and returns when
  /// that is done. Everything below is for such a function.
  template <typename Act>
  void execute(Act act) {
    commands_.execute(doorbell_, act);
  }

  /// Requires that every region was removed.
  void stop();
  /// To be called after a region was added: the engine's time and memory are counted from the first
  /// one on.
  void note_start();
  RegionCommands& regions() { return regions_; }
  Spilling& spilling() { return spilling_; }
  AddressSpaces& spaces() { return spaces_; }
  PolicyHost& policy() { return policy_; }
  TouchRecorder& recorder() { return recorder_; }

  size_t look(std::span<FileView> views) const;
  uint32_t look(window::ChunkId first, std::span<ChunkView> states) const;
  std::vector<std::string> lazy_files() const;
  uint64_t resize(uint64_t window_bytes);
  uint32_t evict(std::span<const window::ChunkId> chunks);
  uint32_t drop();

  // Any thread, once `opened` was set.
  bool adapts() const { return policy_.adapts(); }
  bool is_user_mode_only() const { return is_user_mode_only_; }
  uint64_t window_bytes_max() const { return memory_.chunks_max() * options_.chunk_bytes; }

 private:
  Status open_everything();
  void close_everything();
  Status open_userfaultfd();
  Status open_spilling();
  Status begin_policy();
  Status open_reads();
  void get_all_memory();
  void serve();
  int64_t sleep_max_ns() const;
  bool waits_in_vain(const io::Wakeup& wakeup) const;
  uint32_t in_flight() const {
    return reads_.reader().reads_in_flight() + workers_.in_flight() + spills_.kept().in_flight();
  }
  void take_worked(bool is_told);
  void take_finished(std::span<const io::Completion> finished);
  void evict_run(const window::Run& run);
  void carry_out_policy();
  void account();
  uint64_t engine_bytes() const;

  const PagerOptions options_;
  telemetry::Telemetry& telemetry_;
  fault::Doorbell doorbell_;
  fault::CommandStack commands_;

  // Set up by the loop's thread, used by it alone.
  AddressSpaces spaces_;
  window::ChunkTable table_;
  ServedFiles files_;
  Waiters waiters_;
  TouchRecorder recorder_;
  PolicyHost policy_;
  WindowMemory memory_;
  SpillStore spills_;
  ContentWorkers workers_;
  const LoopParts parts_;
  ChunkMover chunks_;
  FileReads reads_;
  Spilling spilling_;
  FaultIntake faults_;
  RegionCommands regions_;
  OwnedFd process_status_;
  uint64_t now_ns_ = 0;
  uint64_t reading_since_ns_ = 0;
  uint64_t sampled_ns_ = 0;
  bool is_stopping_ = false;
  bool is_user_mode_only_ = false;
};

}  // namespace weightpager
