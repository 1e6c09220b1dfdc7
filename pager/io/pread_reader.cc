// The pread reader, for systems that refuse io_uring, and for files in memory: a few threads, each
// with one request at the device.
//
// The pager's thread puts pieces into a queue. The threads take them out, call pread or pwrite,
// and note what is finished. An eventfd is readable while anything is finished, so the pager can
// sleep on that and on the watched descriptor at once. Cost: each piece wakes a thread,
// and each read or write wakes the pager; no more requests are in flight than there are threads.
//
// One mutex guards all shared data. It is held for a few lines, never over a system call that can
// block.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "pager/base/mutex.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/io/deadline.h"
#include "pager/io/piece_queue.h"
#include "pager/io/read_table.h"
#include "pager/io/reader.h"

namespace weightpager::io {
namespace {

/// On a device with the usual 2 MiB requests, 8 threads keep 16 MiB in flight.
constexpr uint32_t threads_max = 8;

int64_t answer_to(const KernelRequest& request) {
  const auto offset = static_cast<off_t>(request.offset_bytes);
  const ssize_t bytes =
      request.is_write ? kernel::pwrite(request.fd, request.buffer, request.length_bytes, offset)
                       : kernel::pread(request.fd, request.buffer, request.length_bytes, offset);
  return bytes >= 0 ? bytes : -errno;
}

class PreadReader final : public Reader {
 public:
  explicit PreadReader(const ReaderOptions& options)
      : watched_fd_(options.watched_fd), table_(options), queue_(table_.pieces_max()) {
    finished_.reserve(options.reads_max);
    completions_.reserve(options.reads_max);
  }
  ~PreadReader() override;

  Status start_threads(uint32_t count);

  void start(const Read& read) override { take_on(read); }
  void start_write(const Write& write) override { take_on(write); }
  Wakeup wait(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override { return reads_in_flight_; }
  const char* name() const override { return "pread"; }

 private:
  template <typename Asked>
  void take_on(const Asked& asked);
  void serve_queue();
  ReadTable::After serve_piece(PieceName name) WP_REQUIRES(mutex_);
  bool sleep(const Deadline& deadline);
  void fetch_finished();

  // Used by the pager's thread alone.
  const int watched_fd_;
  uint32_t reads_in_flight_ = 0;
  std::vector<Completion> completions_;  // of the last `wait`

  // Shared by all threads.
  Mutex mutex_;
  Condition work_;
  ReadTable table_ WP_GUARDED_BY(mutex_);
  PieceQueue queue_ WP_GUARDED_BY(mutex_);
  std::vector<Completion> finished_ WP_GUARDED_BY(mutex_);  // not fetched yet
  bool is_ending_ WP_GUARDED_BY(mutex_) = false;

  /// Readable if and only if `finished_` is not empty.
  int finished_event_ = -1;
  std::vector<std::thread> threads_;
};

PreadReader::~PreadReader() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  work_.wake_all();
  for (std::thread& thread : threads_) thread.join();
  if (finished_event_ >= 0) close(finished_event_);
}

Status PreadReader::start_threads(uint32_t count) {
  finished_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (finished_event_ < 0) {
    return fail(fmt::format("cannot create an eventfd for the pread reader: {}", strerror(errno)),
                "raise the limit on open files: `ulimit -n`", errno);
  }
  while (threads_.size() < count) {
    auto thread = start_thread("wp-read", [this] { serve_queue(); });
    if (!thread) return forward_error(std::move(thread));
    threads_.push_back(std::move(*thread));
  }
  return {};
}

template <typename Asked>
void PreadReader::take_on(const Asked& asked) {
  {
    const MutexLock lock(mutex_);
    table_.add(asked, [this](PieceName name) WP_UNCHECKED {
      queue_.push(name);
      work_.wake_one();
    });
  }
  reads_in_flight_++;
}

/// The loop of each thread: takes pieces until the reader ends and the queue is empty.
void PreadReader::serve_queue() {
  const MutexLock lock(mutex_);
  while (true) {
    while (!is_ending_ && queue_.is_empty()) work_.wait(mutex_);
    if (queue_.is_empty()) return;
    const PieceName name = queue_.pop();
    if (serve_piece(name) != ReadTable::After::row_finished) continue;
    finished_.push_back(table_.finish(name));
    if (finished_.size() == 1) {
      constexpr eventfd_t one = 1;
      const bool is_heard = kernel::write(finished_event_, &one, sizeof one) > 0;
      if (!is_heard && is_refusal(errno)) end_refused("write", errno);
    }
  }
}

ReadTable::After PreadReader::serve_piece(PieceName name) {
  ReadTable::After after;
  do {
    const KernelRequest request = table_.request(name);
    mutex_.unlock();
    const int64_t answer = answer_to(request);
    mutex_.lock();
    after = table_.take_answer(name, answer);
  } while (after == ReadTable::After::ask_again);
  return after;
}

Wakeup PreadReader::wait(int64_t timeout_ns) {
  const Deadline deadline(timeout_ns);
  const bool watched_fd_readable = sleep(deadline);
  fetch_finished();
  reads_in_flight_ -= static_cast<uint32_t>(completions_.size());
  return {completions_, watched_fd_readable};
}

/// Sleeps until something is finished, the watched descriptor is readable (returns true), or the
/// time is over.
bool PreadReader::sleep(const Deadline& deadline) {
  pollfd descriptors[] = {{.fd = finished_event_, .events = POLLIN, .revents = 0},
                          {.fd = watched_fd_, .events = POLLIN, .revents = 0}};
  int ready;
  do {
    timespec limit{};
    if (!deadline.is_unlimited()) limit = to_timespec<timespec>(deadline.remaining_ns());
    ready = ppoll(descriptors, std::size(descriptors), deadline.is_unlimited() ? nullptr : &limit,
                  nullptr);
    if (ready < 0 && is_refusal(errno)) end_refused("ppoll", errno);
  } while (ready <= 0 && !deadline.has_passed());
  return ready > 0 && descriptors[1].revents != 0;
}

void PreadReader::fetch_finished() {
  completions_.clear();
  const MutexLock lock(mutex_);
  if (finished_.empty()) return;
  completions_.swap(finished_);
  eventfd_t count;
  kernel::read(finished_event_, &count, sizeof count);
}

}  // namespace

Result<std::unique_ptr<Reader>> open_pread_reader(const ReaderOptions& options) {
  auto reader = std::make_unique<PreadReader>(options);
  if (Status started = reader->start_threads(std::min(options.reads_max, threads_max)); !started) {
    return forward_error(std::move(started));
  }
  return reader;
}

}  // namespace weightpager::io
