// The state behind session.h, for the files that share it: session.cc, and spilled_memory.cc for
// memory of the engine's own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/plain_memory.h"
#include "pager/base/span.h"
#include "pager/io/mirrors.h"
#include "pager/loop/paging_service.h"
#include "pager/model/recognise.h"
#include "pager/pager.h"
#include "pager/preload/session.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::preload {

struct Mapped {
  Range range;
  // A child process sees the file itself. Here the file is mapped without access, so that a child
  // needs no right to open it; 0 if it is not mapped.
  uintptr_t plain = 0;
  // The link by which a child opens the file if it is not mapped.
  std::string link;
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t offset_bytes = 0;
  int protection = 0;
  int flags = 0;
};

struct SessionConfiguration {
  uint64_t window_bytes = 0;
  std::vector<std::string> globs;    // the user's
  std::vector<model::FileId> files;  // models that the starter of the engine has named
  std::string mapper = "auto";
  std::string policy;
  std::string server_socket;  // "" for a pager of its own
  std::string run_directory;
  std::vector<io::CheckedCopy> copies;   // of models, on other drives
  bool has_mirrors = false;              // somebody asked for them
  std::string access_profile_directory;  // "" if nothing is learned from run to run
  bool records_touches = false;
  bool wants_profiles = true;
  std::string spill_folder;  // "": memory of the engine's own is not served
  std::string kept_folder;   // "": nothing of it is kept for the next run
};

// Never destroyed: engine threads may run until the process is gone.
struct Session {
  SessionConfiguration configuration;
  // Set under the mutex. Atomic, because the process may end while another thread holds the mutex.
  std::atomic<telemetry::Telemetry*> telemetry{nullptr};
  Mutex mutex;  // the pager's thread never takes it
  std::unique_ptr<PagingService> pager WP_GUARDED_BY(mutex);
  Pager* own_pager WP_GUARDED_BY(mutex) = nullptr;  // the same, if it is this process's own
  // Memory of the engine's own that the pager serves, in the order in which it came.
  std::vector<Range> arenas WP_GUARDED_BY(mutex);
  std::vector<InheritedPart> inherited WP_GUARDED_BY(mutex);  // by the child that is being made
  std::vector<Mapped> mapped WP_GUARDED_BY(mutex);
  // The ranges that the engine had written at the last fork; a child inherits them.
  std::vector<Span> written WP_GUARDED_BY(mutex);
  // The ranges that the engine has forbidden itself to access (PROT_NONE).
  std::vector<Span> hidden WP_GUARDED_BY(mutex);
  bool has_failed WP_GUARDED_BY(mutex) = false;
  bool has_told_of_no_copy WP_GUARDED_BY(mutex) = false;
};

/// nullptr: the environment asks for no paging.
extern Session* session;

/// The session's own calls must not come back to it.
extern thread_local bool is_inside __attribute__((tls_model("initial-exec")));

class Inside {
 public:
  Inside() : was_inside_(is_inside) { is_inside = true; }
  ~Inside() { is_inside = was_inside_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const bool was_inside_;
  const PlainMemory plain_;
};

/// The value of a variable of the environment.
std::string environment(const char* name, const char* otherwise = "");

/// The path of an open file; "" if it cannot be told.
std::string path_of(int fd);

/// What a pager is started for.
struct PagerPurpose {
  /// A descriptor on the device that most reads go to.
  int fd = -1;
  uint64_t chunk_bytes = chunk_bytes_max;
  bool expects_writable = false;
  /// The user asked for what it serves: if there can be no pager, that is an error.
  bool is_asked_for = true;
};

/// Starts the pager, if there is none yet. Returns false if none can be had; the reason is told
/// once. No model can be mapped then, unless the purpose was not asked for.
bool start_pager(const PagerPurpose& purpose) WP_REQUIRES(session->mutex);

/// Every memory call looks at these ranges from now on.
void publish_ranges() WP_REQUIRES(session->mutex);

// ---- Memory of the engine's own (spilled_memory.cc) ----

/// Whether any part of the range lies in memory of the engine's own. Locks the session, unless the
/// range is far from it.
bool touches_arena(const void* address, size_t length);
/// mprotect of a part of it. Returns the same as mprotect(2).
int protect_arena(int protection);
/// The range reads as zeros from now on.
void clear_in_arena(std::byte* address, size_t length);

void before_fork_of_arenas() WP_REQUIRES(session->mutex);
void after_fork_of_arenas_in_parent() WP_REQUIRES(session->mutex);
/// Makes only system calls.
void after_fork_of_arenas_in_child() WP_REQUIRES(session->mutex);

}  // namespace weightpager::preload
