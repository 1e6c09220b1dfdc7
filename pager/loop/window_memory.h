// The window's size, and the memory behind it (window/backing_memory.h).
//
// Memory that is not there yet costs more than a chunk's read, so slots are made ahead while the
// window fills, and nobody waits for more than the next few. The window becomes smaller where the
// process's memory limit is near, and larger again; it also does when somebody asks for it.
//
// Used by the pager's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "pager/base/result.h"
#include "pager/loop/pager_options.h"
#include "pager/loop/policy_host.h"
#include "pager/loop/served_files.h"
#include "pager/window/backing_memory.h"
#include "pager/window/chunk_table.h"
#include "pager/window/memory_headroom.h"

namespace weightpager {

class WindowMemory {
 public:
  WindowMemory(const PagerOptions& options, window::ChunkTable& table, const ServedFiles& files,
               PolicyHost& policy);

  /// Chooses the mapper and gets what it needs.
  Status open(window::AddressSpace& own, fault::Doorbell& doorbell);
  /// Looks at the process's memory limit from now on.
  void begin_following_limit() { headroom_.emplace(); }
  void close_headroom() { headroom_.reset(); }
  /// Requires that all files and userfaultfds are closed: threads that make memory may be ringing.
  void close() { backing_.reset(); }

  window::BackingMemory& backing() { return *backing_; }
  const window::BackingMemory& backing() const { return *backing_; }
  /// Now; and at most.
  uint32_t chunks() const { return chunks_; }
  uint32_t chunks_max() const { return chunks_max_; }

  /// Slots whose memory has come are free from now on, and more are asked for.
  void take_new_slots();
  /// Asks for more, if no slot is free.
  void ask_for_slots();
  /// Memory beyond the window goes back.
  void trim_slots() { backing_->trim_slots(chunks_); }

  /// A chunk has just been given a slot. Returns whether so many chunks were never in use before.
  bool note_chunks_in_use();

  /// Between its least size and chunks_max(); returns the size that it has now.
  uint32_t resize(uint32_t chunks);
  /// Now and then: less memory than the window was meant to have, or more again?
  void follow_limit(uint64_t now_ns);
  /// Where chunks are copied, some of the window stays free for slots between disk and regions.
  void fit_table();

 private:
  void grow_to(uint32_t chunks);
  void set_chunks(uint32_t chunks);

  const PagerOptions& options_;
  telemetry::Telemetry& telemetry_;
  window::ChunkTable& table_;
  const ServedFiles& files_;
  PolicyHost& policy_;
  std::unique_ptr<window::BackingMemory> backing_;
  std::optional<window::MemoryHeadroom> headroom_;
  uint32_t chunks_;         // now
  uint32_t chunks_there_;   // of these: less while memory for a larger window is made
  uint32_t chunks_wanted_;  // as far as the memory limit allows
  uint32_t chunks_max_;
  uint32_t chunks_used_max_ = 0;  // at once, since the window last became smaller
  uint64_t looked_ns_ = 0;
  bool has_told_of_limit_ = false;
};

}  // namespace weightpager
