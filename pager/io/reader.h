// How bytes arrive: reads of whole chunks from model files into slots, many in flight.
//
// The pager starts reads and sleeps in one place, `wait`, which also wakes it when the watched file
// descriptor (the userfaultfd) becomes readable. Two readers: io_uring (uring_reader.cc: one
// thread, no extra context switches) and pread (pread_reader.cc: a few threads, for kernels and
// containers without io_uring). A reader hides short reads, EINTR and EAGAIN; what it reports is
// final. The rules for that are the same for both and lie in read_progress.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "pager/base/result.h"

namespace weightpager::io {

/// Reads go to the device when there is this much of them, at the latest: who starts many small
/// ones has work to do for each, in which time the device need not idle. As much as the device
/// takes in one request, so that neighbours still become one.
inline constexpr uint64_t submitted_at_once_bytes = 1u << 20;

/// `length_bytes` bytes at `offset_bytes` of the open file `fd`, into `buffer`. For files opened
/// with O_DIRECT all three, and the buffer, are multiples of the file's direct-read alignment; the
/// length may reach beyond the end of the file. The buffer stays valid until the read is completed.
struct Read {
  uint64_t tag = 0;  // the caller's name for it, returned in the completion
  int fd = -1;
  uint64_t offset_bytes = 0;
  uint32_t length_bytes = 0;
  std::byte* buffer = nullptr;
};

struct Completion {
  uint64_t tag = 0;
  /// 0, or the errno of the first part that failed.
  int error_number = 0;
  /// Bytes that arrived without a gap from the read's start; fewer than asked for without an error
  /// means: end of file.
  uint32_t length_bytes = 0;
};

struct Wakeup {
  /// Valid until the next call of `wait` or `doze`.
  std::span<const Completion> completions;
  /// It was when the reader looked; whoever has read from it since must expect to find nothing.
  bool watched_fd_readable = false;
};

class AnswerFilter;

struct ReaderOptions {
  /// A file descriptor whose readability (or hang-up, or error) ends `wait`; -1 for none. It is
  /// looked at anew in every `wait`: what the caller leaves unread wakes it again.
  int watched_fd = -1;
  /// It stays with the thread that creates it. If not, any thread may use it, one after the other;
  /// with io_uring that takes a little more of the kernel.
  bool is_of_one_thread = true;
  /// Most reads (of the caller, not of the device) that are in flight at once.
  uint32_t reads_max = 64;
  /// The longest read of the caller.
  uint32_t read_bytes_max = 2u << 20;
  /// A read longer than this is handed to the device in pieces of this size, a multiple of 4 KiB.
  uint32_t device_read_bytes = 2u << 20;
  /// Tests only: what stands between the kernel's answers and the reader (read_table.h).
  AnswerFilter* answer_filter = nullptr;
};

/// Used by one thread, which also creates and destroys it, if ReaderOptions do not say otherwise.
/// `start` and `wait` allocate nothing.
class Reader {
 public:
  /// Waits for the reads in flight: until then the kernel writes into their buffers.
  virtual ~Reader() = default;

  /// Takes the read on; it reaches the device no later than the next `wait`. Requires
  /// reads_in_flight() < reads_max and a length of at most read_bytes_max.
  virtual void start(const Read& read) = 0;

  /// Hands over what was started, then sleeps until a read is completed, the watched descriptor is
  /// readable or `timeout_ns` has passed (negative: no limit; 0: only looks).
  virtual Wakeup wait(int64_t timeout_ns) = 0;

  /// As `wait`, but reads that are completed do not end it, they are only handed out with it: for
  /// who has no use for them yet. Where a reader knows no better it is `wait`.
  virtual Wakeup doze(int64_t timeout_ns) { return wait(timeout_ns); }

  /// Started and not yet handed out by `wait`.
  virtual uint32_t reads_in_flight() const = 0;

  /// "io_uring" or "pread".
  virtual const char* name() const = 0;
};

/// Fails if the kernel refuses io_uring (old kernel, seccomp, kernel.io_uring_disabled).
Result<std::unique_ptr<Reader>> open_uring_reader(const ReaderOptions& options);
Result<std::unique_ptr<Reader>> open_pread_reader(const ReaderOptions& options);

}  // namespace weightpager::io
