// The io_uring reader: the pager's thread itself keeps every read and write in flight.
//
// Requests go into a ring that is shared with the kernel, and answers come back through another
// one. One system call, made in `wait`, submits the new requests and sleeps for the next answer.
// The watched descriptor is one more request, a poll, so faults and finished reads wake the same
// sleep.
//
// The poll is a single-shot one. After it has fired, the next `wait` makes it again, in the same
// system call. It reports a descriptor that was left readable once more; a multishot poll would
// stay silent until something new happens.
//
// Neither buffers nor files are registered with the ring. Registering locks buffers in memory, and
// locked slots cannot be moved (UFFDIO_MOVE: EBUSY), nor locked pages of shared memory be given up.
// Slots that are copied from could be registered: of the 340 ms that such a GiB takes, 2 would go.
// A registered file saves less than bench/registered_bench.cc can tell from chance. The ring itself
// counts as locked memory on some kernels (before 5.12, and again on 6.18), so it is small enough
// for a limit of 64 KiB. Pieces that find no place in it wait in a queue.
//
// The kernel can refuse io_uring_enter at any time (base/refusal.h). Then the pread reader takes
// over all later reads and, as soon as the kernel has let go of their buffers, those in flight.
#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/refusal.h"
#include "pager/io/deadline.h"
#include "pager/io/piece_queue.h"
#include "pager/io/read_table.h"
#include "pager/io/reader.h"

namespace weightpager::io {
namespace {

/// The ring has so many places, and takes 16 KiB: one place is for the poll, the others are for
/// pieces. With the smallest requests that device_limits() proposes, 256 KiB, that keeps 32 MiB in
/// flight; with chunks of 128 KiB, each of which is one request, 16 MiB. Other pieces wait.
constexpr uint32_t ring_entries_max = 128;

/// The poll's name in the ring. Pieces have 32-bit names.
constexpr uint64_t watch_name = uint64_t{1} << 32;

/// Threads of the kernel's, on each memory node, that get memory for buffers: beyond two, the
/// machine's memory is the limit.
constexpr unsigned memory_threads_max = 2;

/// After a refusal the kernel may still write into buffers for so long without reporting it.
constexpr int64_t last_answers_max_ns = 1'000'000'000;
constexpr useconds_t last_answers_pause_us = 200;

/// Errors that `io_uring_enter` returns to a correct program, too.
bool is_passing(int error_number) {
  return error_number == ETIME || error_number == EINTR || error_number == EAGAIN ||
         error_number == EBUSY;
}

class UringReader final : public Reader {
 public:
  /// The caller must call `set_up_ring` next. Until then only destruction is allowed.
  explicit UringReader(const ReaderOptions& options)
      : options_(options),
        watched_fd_(options.watched_fd),
        is_of_one_thread_(options.is_of_one_thread),
        table_(options),
        waiting_(table_.pieces_max()) {
    completions_.reserve(options.reads_max);
  }
  ~UringReader() override;

  /// Returns 0 or a negative errno.
  int set_up_ring();

  void start(const Read& read) override {
    if (substitute_) return substitute_->start(read);
    take_on(read);
  }
  void start_write(const Write& write) override {
    if (substitute_) return substitute_->start_write(write);
    take_on(write);
  }
  Wakeup wait(int64_t timeout_ns) override;
  Wakeup doze(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override {
    return substitute_ ? substitute_->reads_in_flight() : table_.in_flight();
  }
  const char* name() const override { return substitute_ ? substitute_->name() : "io_uring"; }

 private:
  template <typename Asked>
  void take_on(const Asked& asked) {
    table_.add(asked, [this](PieceName name) { waiting_.push(name); });
    unsubmitted_bytes_ += asked.length_bytes;
    if (unsubmitted_bytes_ >= submitted_at_once_bytes) submit();
  }
  io_uring_sqe* new_entry();
  void ask_for_pieces();
  void ask_for_watched_fd();
  void submit();
  void sleep(const Deadline& deadline);
  Wakeup look();
  void take_finished();
  void take_answers();
  void take_answer(PieceName name, int answer);
  void check(int result);
  void await_last_answers(int error_number);
  void be_substituted(int error_number);

  const ReaderOptions options_;
  const int watched_fd_;
  const bool is_of_one_thread_;
  ReadTable table_;
  PieceQueue waiting_;
  io_uring ring_{};
  bool has_ring_ = false;
  uint32_t pieces_in_ring_ = 0;
  uint64_t unsubmitted_bytes_ = 0;
  bool is_watching_ = false;
  bool watched_fd_readable_ = false;
  std::vector<Completion> completions_;
  std::unique_ptr<Reader> substitute_;  // set when io_uring_enter has been refused
};

UringReader::~UringReader() {
  if (!has_ring_) return;
  completions_.clear();
  while (has_ring_ && reads_in_flight() > 0) {
    sleep(Deadline(-1));
    if (has_ring_) take_answers();
  }
  if (has_ring_) io_uring_queue_exit(&ring_);
}

int UringReader::set_up_ring() {
  // The best choice comes first. One thread uses the ring, so the kernel may leave all completion
  // work to that thread's own calls (DEFER_TASKRUN, Linux 6.1), or at least not interrupt the
  // thread for it (COOP_TASKRUN, 5.19). A kernel that does not know a flag returns EINVAL.
  constexpr uint32_t flag_choices[] = {
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN,
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0};

  const uint32_t entries = std::min(table_.pieces_max() + 1, ring_entries_max);
  int result = -EINVAL;
  for (const uint32_t flags : flag_choices) {
    if (!is_of_one_thread_ && (flags & IORING_SETUP_SINGLE_ISSUER)) continue;
    io_uring_params params{};
    params.flags = flags;
    result = io_uring_queue_init_params(entries, &ring_, &params);
    if (result != -EINVAL) break;
  }
  has_ring_ = result == 0;
  // Without this feature (Linux < 5.11) a sleep with a time limit would need another request.
  if (!has_ring_) return result;
  if (!(ring_.features & IORING_FEAT_EXT_ARG)) return -ENOSYS;
  // Linux 5.15. Before, there may be as many threads as requests.
  unsigned threads_max[] = {memory_threads_max, 0};
  io_uring_register_iowq_max_workers(&ring_, threads_max);
  // A seccomp filter may allow the setup but not the calls after it.
  result = io_uring_get_events(&ring_);
  return result < 0 && !is_passing(-result) ? result : 0;
}

Wakeup UringReader::wait(int64_t timeout_ns) {
  if (substitute_) return substitute_->wait(timeout_ns);
  if (timeout_ns == 0 && watched_fd_ < 0) return look();
  const Deadline deadline(timeout_ns);
  completions_.clear();
  watched_fd_readable_ = false;
  ask_for_watched_fd();
  do {
    sleep(deadline);
    if (substitute_)
      return substitute_->wait(deadline.is_unlimited() ? -1 : deadline.remaining_ns());
    take_answers();
  } while (completions_.empty() && !watched_fd_readable_ && !deadline.has_passed());
  return {completions_, watched_fd_readable_};
}

Wakeup UringReader::look() {
  completions_.clear();
  submit();
  if (pieces_in_ring_ > 0) take_finished();
  if (substitute_) return substitute_->wait(0);
  return {completions_, false};
}

/// The kernel finishes reads only in calls that ask for answers, so no read wakes this sleep.
Wakeup UringReader::doze(int64_t timeout_ns) {
  if (!substitute_) submit();
  if (substitute_ || watched_fd_ < 0 || !waiting_.is_empty()) return wait(timeout_ns);
  completions_.clear();
  const timespec limit = to_timespec<timespec>(std::max<int64_t>(timeout_ns, 0));
  pollfd watched = {.fd = watched_fd_, .events = POLLIN, .revents = 0};
  watched_fd_readable_ = ppoll(&watched, 1, timeout_ns < 0 ? nullptr : &limit, nullptr) > 0;
  take_finished();
  if (substitute_) return substitute_->wait(0);
  return {completions_, watched_fd_readable_};
}

void UringReader::take_finished() {
  check(io_uring_get_events(&ring_));
  if (!substitute_) take_answers();
}

/// Always finds an entry, because there are never more requests than the ring was made for.
io_uring_sqe* UringReader::new_entry() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  WP_ASSERT(entry);
  return entry;
}

void UringReader::ask_for_pieces() {
  const uint32_t pieces_max = ring_.sq.ring_entries - 1;
  for (; !waiting_.is_empty() && pieces_in_ring_ < pieces_max; pieces_in_ring_++) {
    const PieceName name = waiting_.pop();
    const KernelRequest request = table_.request(name);
    io_uring_sqe* entry = new_entry();
    if (request.is_write) {
      io_uring_prep_write(entry, request.fd, request.buffer, request.length_bytes,
                          request.offset_bytes);
    } else {
      io_uring_prep_read(entry, request.fd, request.buffer, request.length_bytes,
                         request.offset_bytes);
    }
    // Otherwise io_uring_enter would get the buffer's memory before it returns.
    if (request.gets_memory) io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
    io_uring_sqe_set_data64(entry, name);
  }
}

void UringReader::ask_for_watched_fd() {
  if (watched_fd_ < 0 || is_watching_) return;
  io_uring_sqe* entry = new_entry();
  io_uring_prep_poll_add(entry, watched_fd_, POLLIN);
  io_uring_sqe_set_data64(entry, watch_name);
  is_watching_ = true;
}

void UringReader::submit() {
  ask_for_pieces();
  unsubmitted_bytes_ = 0;
  check(io_uring_submit(&ring_));
}

void UringReader::sleep(const Deadline& deadline) {
  ask_for_pieces();
  unsubmitted_bytes_ = 0;
  __kernel_timespec limit{};
  if (!deadline.is_unlimited()) limit = to_timespec<__kernel_timespec>(deadline.remaining_ns());
  io_uring_cqe* first_answer;
  check(io_uring_submit_and_wait_timeout(&ring_, &first_answer, 1,
                                         deadline.is_unlimited() ? nullptr : &limit, nullptr));
}

/// Handles the result of `io_uring_enter`.
void UringReader::check(int result) {
  if (result >= 0 || is_passing(-result)) return;
  be_substituted(-result);
}

/// Waits for the answers to the requests that the kernel has. Nobody may use their buffers before.
/// Only on some kernels do these answers come without a call; if they do not come in time, the
/// process ends. What was in flight is read, or written, again afterwards.
void UringReader::await_last_answers(int error_number) {
  // The kernel has not got the requests that are still in the queue.
  const unsigned first = *ring_.sq.khead;
  for (unsigned i = 0; i < io_uring_sq_ready(&ring_); ++i) {
    const io_uring_sqe& entry = ring_.sq.sqes[(first + i) & ring_.sq.ring_mask];
    if (entry.user_data != watch_name) pieces_in_ring_--;
  }
  const Deadline deadline(last_answers_max_ns);
  while (pieces_in_ring_ > 0) {
    io_uring_cqe* entry;
    if (io_uring_peek_cqe(&ring_, &entry) == 0) {
      if (entry->user_data != watch_name) pieces_in_ring_--;
      io_uring_cqe_seen(&ring_, entry);
    } else if (deadline.has_passed()) {
      end_refused("io_uring_enter", error_number);
    } else {
      usleep(last_answers_pause_us);
    }
  }
}

void UringReader::be_substituted(int error_number) {
  await_last_answers(error_number);
  io_uring_queue_exit(&ring_);
  has_ring_ = false;
  auto substitute = open_pread_reader(options_);
  if (!substitute) end_refused("io_uring_enter", error_number);
  substitute_ = std::move(*substitute);
  waiting_.clear();
  table_.hand_over(*substitute_);
  notice(
      "io_uring is refused from now on: reading and writing with threads, a little slower. A "
      "system call "
      "filter "
      "that the engine has set is the likely cause");
}

void UringReader::take_answers() {
  io_uring_cqe* entry;
  while (io_uring_peek_cqe(&ring_, &entry) == 0) {
    const uint64_t name = entry->user_data;
    const int answer = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    if (name == watch_name) {
      is_watching_ = false;
      watched_fd_readable_ = true;
    } else {
      take_answer(static_cast<PieceName>(name), answer);
    }
  }
}

void UringReader::take_answer(PieceName name, int answer) {
  pieces_in_ring_--;
  switch (table_.take_answer(name, answer)) {
    case ReadTable::After::ask_again:
      return waiting_.push(name);
    case ReadTable::After::wait_for_others:
      return;
    case ReadTable::After::row_finished:
      completions_.push_back(table_.finish(name));
  }
}

const char* cure_of_ring(int error_number) {
  switch (error_number) {
    case EPERM:
    case EACCES:
      return "the system or the container forbids it: `sysctl -w kernel.io_uring_disabled=0`, or "
             "allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile";
    case ENOSYS:
      return "it needs Linux 5.11 or newer, built with CONFIG_IO_URING";
    case ENOMEM:
      return "the ring may count as locked memory: raise `ulimit -l` (in KiB)";
    case EMFILE:
    case ENFILE:
      return "too many open files: raise `ulimit -n`";
    default:
      return "";
  }
}

}  // namespace

Result<std::unique_ptr<Reader>> open_uring_reader(const ReaderOptions& options) {
  auto reader = std::make_unique<UringReader>(options);
  if (const int result = reader->set_up_ring(); result < 0) {
    return fail(fmt::format("io_uring is refused: {}", std::strerror(-result)),
                cure_of_ring(-result), -result);
  }
  return reader;
}

}  // namespace weightpager::io
