// What a run's processes saw before, and beside, any paging: one mark after the other in a file of
// the run directory ($WEIGHTPAGER_RUN_DIR/marks). `weightpager run` makes the file and, at the end,
// tells by it why no model was served.
//
// Leaving a mark takes system calls only, and nothing stays open: it may be done while a library is
// loaded, between vfork and exec, and by a process that gave up its rights. The file is never
// mapped, so that nobody who cuts it off can kill whoever writes to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weightpager::telemetry {

inline constexpr uint32_t mark_magic = 0x31505757;  // "WWP1"

/// Numbers are the file's format.
enum class MarkKind : uint32_t {
  loaded = 1,            // the interposer is in this process; subject: the program
  hooked = 2,            // another library answers mmap in front; subject: it
  opened = 3,            // a model was opened; amount: its size
  read = 4,              // at the end: bytes that were read since; subject: as of `opened`
  mapped_plain = 5,      // a model was mapped as the kernel does; amount: bytes
  lost_environment = 6,  // subject is started without the interposer; amount: 1 if it gets a model
  cannot_load = 7,       // subject is started, and no library gets into it; amount: as above
  gains_rights = 8,      // subject is started and the kernel ignores LD_PRELOAD; amount: as above
  forked = 9,            // a child; amount: of whose weights it has the plain file, 0: of nobody's
  forking = 12,          // a child is about to be made, which may outlive who makes it
  child_started = 10,    // … runs another program from here on
  child_touched = 11,    // … at its end; amount: bytes of the plain file that it has touched
  paging = 13,           // the first model is about to be paged
  unseen_memory = 14,    // at the end; amount: bytes of memory that nobody asked the interposer for
  deep_bound = 15,       // a library was opened that allocates past the interposer; subject: it
  mapped_memory = 16,    // at the end; amount: bytes of anonymous memory that mmap was asked for
};

/// How a model was mapped that the interposer left to the kernel.
enum class MarkPlace : uint32_t { other = 0, fixed = 1, shared_writable = 2 };

struct Mark {
  uint32_t magic = mark_magic;
  MarkKind kind = MarkKind::loaded;
  int32_t process_id = 0;
  MarkPlace place = MarkPlace::other;  // of mapped_plain
  uint64_t pid_namespace = 0;          // process_id means something there only; 0: not known
  uint64_t amount = 0;
  char command[32] = {};
  char subject[192] = {};  // the end of it, where it is longer
};
static_assert(sizeof(Mark) == 256);

/// The file in a run directory.
std::string marks_path(const std::string& directory);

/// From now on this process's marks go there. "": nowhere.
void leave_marks_in(const std::string& directory);

/// Adds the mark with this process's id and name. Lost in silence where there is no such file, or
/// it is full: a mark is never worth an engine.
void leave_mark(MarkKind kind, std::string_view subject, uint64_t amount = 0,
                MarkPlace place = MarkPlace::other);

/// In order. What is no mark is left out.
std::vector<Mark> read_marks(const std::string& directory);

}  // namespace weightpager::telemetry
