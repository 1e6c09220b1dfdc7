// Which memory the calling thread's malloc takes.
//
// In an engine's process the interposer answers malloc, and puts large blocks into memory that the
// pager serves (pager/preload/allocation.cc). The pager's own blocks must not lie there: its thread
// would wait for itself. So threads of ours, and the engine's threads while they work for the
// pager, take plain memory.
#pragma once

namespace weightpager {

inline constinit thread_local bool takes_plain_memory __attribute__((tls_model("initial-exec"))) =
    false;

/// While the object exists, the calling thread takes plain memory.
class PlainMemory {
 public:
  PlainMemory() : took_before_(takes_plain_memory) { takes_plain_memory = true; }
  ~PlainMemory() { takes_plain_memory = took_before_; }
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;

 private:
  const bool took_before_;
};

}  // namespace weightpager
