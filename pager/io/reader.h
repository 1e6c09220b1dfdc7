// Reads whole chunks from files into slots, and writes them from slots into files, with many in
// flight.
//
// Model files are read only. A spill file (pager/spill) is written, too. The pager starts reads and
// writes, and sleeps in one place, `wait`, which also wakes it when the watched file
// descriptor (the userfaultfd) becomes readable. There are two readers: io_uring (uring_reader.cc:
// one thread, no extra context switches) and pread (pread_reader.cc: a few threads, for files in
// memory, and for kernels and containers without io_uring). A reader hides short answers, EINTR,
// EAGAIN and ECANCELED; its reports are final. Both follow the same rules for that, which are in
// read_progress.h. Reads and writes in flight are not ordered: who reads what was written waits for
// the write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "pager/base/result.h"

namespace weightpager::io {

/// Started reads and writes go to the device when they have this many bytes together, at the
/// latest. A caller that starts many small ones has work to do for each, and the device need not
/// idle meanwhile. It is the size of one request to the device, so that neighbouring reads still
/// become one request.
inline constexpr uint64_t submitted_at_once_bytes = 1u << 20;

/// Reads `length_bytes` bytes at `offset_bytes` of the open file `fd` into `buffer`. For files that
/// were opened with O_DIRECT, offset, length and the buffer's address must be multiples of the
/// file's direct-read alignment. The length may reach beyond the end of the file. The buffer must
/// stay valid until the read is completed.
struct Read {
  uint64_t tag = 0;  // the caller's name for it, returned in the completion
  int fd = -1;
  uint64_t offset_bytes = 0;
  uint32_t length_bytes = 0;
  std::byte* buffer = nullptr;
  /// The buffer has no memory yet. To get it may take longer than the read itself, so a thread of
  /// the kernel's, or of the reader's, gets it while the caller goes on, if there is such a thread.
  bool gets_memory = false;
};

/// Writes `length_bytes` bytes from `buffer` to `offset_bytes` of the open file `fd`. The alignment
/// is as for reads. The buffer must stay valid, and its bytes the same, until the write is
/// completed. A completed write without an error is in the file, though not proof against a power
/// failure.
struct Write {
  uint64_t tag = 0;  // the caller's name for it, returned in the completion
  int fd = -1;
  uint64_t offset_bytes = 0;
  uint32_t length_bytes = 0;
  const std::byte* buffer = nullptr;
};

/// The final answer to a read or a write.
struct Completion {
  uint64_t tag = 0;
  /// 0, or the errno of the first piece that failed.
  int error_number = 0;
  /// Bytes that arrived without a gap from the start. Fewer than asked for without an error mean
  /// the end of the file for a read; a write without an error is whole.
  uint32_t length_bytes = 0;
};

struct Wakeup {
  /// Valid until the next call of `wait` or `doze`.
  std::span<const Completion> completions;
  /// The descriptor was readable when the reader looked. If somebody has read from it since, there
  /// may be nothing left.
  bool watched_fd_readable = false;
};

class AnswerFilter;

struct ReaderOptions {
  /// A file descriptor that ends `wait` when it is readable (or hangs up, or has an error); -1 for
  /// none. Every `wait` looks at it again: bytes that the caller leaves unread wake it again.
  int watched_fd = -1;
  /// Only the thread that creates the reader uses it. If false, any thread may use it, one after
  /// the other; with io_uring that costs the kernel a little more.
  bool is_of_one_thread = true;
  /// The most reads and writes (of the caller, not of the device) that are in flight at once.
  uint32_t reads_max = 64;
  /// The longest read or write of the caller.
  uint32_t read_bytes_max = 2u << 20;
  /// A read or write longer than this is handed to the device in pieces of this size, a multiple of
  /// 4 KiB.
  uint32_t device_read_bytes = 2u << 20;
  /// Most reads will be copies that processors make (DeviceLimits).
  bool reads_are_copies = false;
  /// For tests only: changes the kernel's answers before the reader gets them (read_table.h).
  AnswerFilter* answer_filter = nullptr;
};

/// Unless ReaderOptions say otherwise, one thread creates, uses and destroys it.
/// `start`, `start_write` and `wait` allocate nothing.
class Reader {
 public:
  /// Waits for what is in flight: until then the kernel uses the buffers.
  virtual ~Reader() = default;

  /// Accepts the read, which reaches the device in the next `wait` at the latest. Requires
  /// reads_in_flight() < reads_max and a length of at most read_bytes_max.
  virtual void start(const Read& read) = 0;

  /// The same for a write. Not every reader that stands in for a real one can write.
  virtual void start_write(const Write& write);

  /// Submits what was started, then sleeps until a read or write is completed, the watched
  /// descriptor is readable or `timeout_ns` has passed (negative: no limit; 0: does not sleep).
  virtual Wakeup wait(int64_t timeout_ns) = 0;

  /// Like `wait`, but a completion does not end the sleep; it is returned when the sleep ends.
  /// For callers that do not need completions yet. A reader that cannot do this calls `wait`.
  virtual Wakeup doze(int64_t timeout_ns) { return wait(timeout_ns); }

  /// The number of reads and writes that were started and not yet returned by `wait` or `doze`.
  virtual uint32_t reads_in_flight() const = 0;

  /// "io_uring" or "pread".
  virtual const char* name() const = 0;
};

/// Fails if the kernel refuses io_uring (old kernel, seccomp, kernel.io_uring_disabled).
Result<std::unique_ptr<Reader>> open_uring_reader(const ReaderOptions& options);
Result<std::unique_ptr<Reader>> open_pread_reader(const ReaderOptions& options);

}  // namespace weightpager::io
