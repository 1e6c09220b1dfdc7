// Chunks between their memory and the engine's sight: shown, hidden, evicted, failed.
//
// The kinds of backing memory know how; this part knows when, and who has to hear of it: threads
// that wait, the policy, the recorder and the counters. Where the kernel still holds a page,
// nothing has happened, and it is tried again.
//
// Used by the pager's thread only; nothing here allocates.
#pragma once

#include <cstdint>

#include "pager/loop/content_workers.h"
#include "pager/loop/policy_host.h"
#include "pager/loop/served_files.h"
#include "pager/loop/spill_store.h"
#include "pager/loop/touch_recorder.h"
#include "pager/loop/waiters.h"
#include "pager/loop/window_memory.h"
#include "pager/telemetry/telemetry.h"
#include "pager/window/chunk_table.h"
#include "pager/window/run.h"

namespace weightpager {

/// What the loop owns and its activities work on; all of it outlives them.
struct LoopParts {
  window::ChunkTable& table;
  ServedFiles& files;
  Waiters& waiters;
  TouchRecorder& recorder;
  PolicyHost& policy;
  WindowMemory& memory;
  SpillStore& spills;
  ContentWorkers& workers;
  telemetry::Telemetry& telemetry;
};

class ChunkMover {
 public:
  explicit ChunkMover(const LoopParts& parts) : parts_(parts) {}

  /// ready → mapped: what one read has brought, by one step if that is possible. Wakes who waits.
  void show(const window::Run& run);
  /// Also of a chunk that is mapped, and waited for where it is not shown.
  void show(window::ChunkId chunk, bool is_retry = false);
  /// Chunks that could not be shown because the kernel still held their pages.
  void retry();

  /// Whether spilled memory stays in sight for now: a child process is being made, which inherits
  /// only what it sees.
  void hold_spilled(bool is_held) { is_spilled_held_ = is_held; }

  /// mapped → ready, where that is possible now: the next touch will be noticed.
  bool hide(window::ChunkId chunk, bool is_used_whole);
  /// Some of the chunks that were shown before a sample began.
  void hide_for_sample();

  /// ready or mapped → absent, of all that can go now; the policy is told of the others.
  void evict(const window::Run& run);
  /// The engine took pages of the chunk away. If these were its last ones, it is evicted, or (of a
  /// file that is kept) out of sight. Who waits for it in another region needs it anew.
  void release_if_nowhere(window::ChunkId chunk);

  /// Never zeros: whoever touches the chunk gets SIGBUS, now and later.
  void fail(window::ChunkId chunk, const char* what, int error_number);
  /// Seals a chunk from its page `first_page` on, in every region, and wakes who waits there.
  void seal_from(window::ChunkId chunk, uint32_t first_page);

  /// Who waits where the chunk now lies was woken by that; who waits for it in another region
  /// touches it again.
  void stop_waiting(window::ChunkId chunk);

  /// Counts and notes that these chunks have become absent.
  void account_evicted(const window::Run& run);

 private:
  void account_show(uint32_t chunks, uint64_t began_ns);
  void account_hide(uint32_t chunks, uint64_t began_ns);
  uint32_t not_waited_for(const window::Run& run) const;

  const LoopParts parts_;
  bool is_spilled_held_ = false;
};

/// Tells that bytes of a file do not come, and counts it.
void report_failure(telemetry::Telemetry& telemetry, const ServedFile& served, uint64_t begin_bytes,
                    uint64_t end_bytes, const char* what, int error_number);

}  // namespace weightpager
