#include "pager/loop/kept_worker.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/own_limits.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/spill/kept_folder.h"

namespace weightpager {
namespace {

// Returns 0 or the errno. A file that ends before that is an error.
int read_piece(int fd, std::byte* to, uint64_t length_bytes, uint64_t offset_bytes) {
  while (length_bytes > 0) {
    const ssize_t read_bytes =
        kernel::pread(fd, to, length_bytes, static_cast<off_t>(offset_bytes));
    if (read_bytes < 0 && errno == EINTR) continue;
    if (read_bytes <= 0) return read_bytes < 0 ? errno : EIO;
    to += read_bytes;
    offset_bytes += static_cast<uint64_t>(read_bytes);
    length_bytes -= static_cast<uint64_t>(read_bytes);
  }
  return 0;
}

// A record that could not be written leaves a chunk that a later run does not find.
void write_down(const KeptNote& note) {
  if (note.used_index != nullptr) return spill::note_kept_use(*note.used_index);
  static_cast<void>(kernel::pwrite(note.index_fd, note.record.data(), note.record.size(),
                                   static_cast<off_t>(note.offset_bytes)));
}

}  // namespace

Status KeptWorker::open() {
  void* const piece = kernel::mmap(nullptr, piece_bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (piece == MAP_FAILED) {
    const int error = errno;
    return fail(std::string("no memory for a buffer: ") + std::strerror(error),
                address_limit_hint(), error);
  }
  piece_ = static_cast<std::byte*>(piece);
  kernel::keep_to_process(piece_, piece_bytes);
  done_event_ = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done_event_.is_open()) {
    return fail(std::string("cannot make an eventfd: ") + std::strerror(errno),
                "raise the limit on open files: `ulimit -n`", errno);
  }
  waiting_.reserve(asked_max);
  auto thread = start_thread("wp-kept", [this] { serve(); });
  if (!thread) return forward_error(std::move(thread));
  thread_ = std::move(*thread);
  return {};
}

void KeptWorker::close() {
  if (thread_.joinable()) {
    is_ending_.store(true);
    bell_.fetch_add(1);
    bell_.notify_one();
    thread_.join();
    Asked asked;
    while (asked_.pop(asked)) {
      if (!asked.is_comparison) write_down(asked.note);
    }
    for (const Asked& it : waiting_) {
      if (!it.is_comparison) write_down(it.note);
    }
    waiting_.clear();
  }
  if (piece_ != nullptr) kernel::munmap(std::exchange(piece_, nullptr), piece_bytes);
  done_event_ = {};
}

void KeptWorker::compare(const KeptComparison& comparison) {
  WP_ASSERT(in_flight_ < comparisons_max);
  ++in_flight_;
  ask({.is_comparison = true, .comparison = comparison, .note = {}});
}

void KeptWorker::note(const KeptNote& note) {
  ask({.is_comparison = false, .comparison = {}, .note = note});
}

// In order: what waits already goes first.
void KeptWorker::ask(const Asked& asked) {
  if (!hand_over() || !asked_.push(asked)) waiting_.push_back(asked);
  bell_.fetch_add(1);
  bell_.notify_one();
}

// Whether nothing waits for room any more.
bool KeptWorker::hand_over() {
  size_t count = 0;
  while (count < waiting_.size() && asked_.push(waiting_[count])) ++count;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
  return waiting_.empty();
}

// What is done after this has begun is told anew.
std::span<const KeptComparison> KeptWorker::take_done(bool is_told) {
  if (!done_event_.is_open()) return {};
  eventfd_t count = 0;
  if (is_told) kernel::read(done_event_.get(), &count, sizeof count);
  is_told_.store(false);
  if (!waiting_.empty()) {
    hand_over();
    bell_.fetch_add(1);
    bell_.notify_one();
  }
  uint32_t taken = 0;
  while (taken < in_flight_ && done_.pop(taken_[taken])) ++taken;
  in_flight_ -= taken;
  return {taken_.data(), taken};
}

void KeptWorker::serve() {
  Asked asked;
  for (;;) {
    const uint32_t rung = bell_.load();
    if (is_ending_.load()) return;
    if (!asked_.pop(asked)) {
      bell_.wait(rung);
      continue;
    }
    if (!asked.is_comparison) {
      write_down(asked.note);
      continue;
    }
    carry_out(asked.comparison);
    done_.push(asked.comparison);  // there is room: no more are in flight than it has places
    tell_done();
  }
}

// Up to the first piece that differs.
void KeptWorker::carry_out(KeptComparison& it) {
  it.is_same = true;
  for (uint64_t at = 0; it.is_same && at < it.length_bytes; at += piece_bytes) {
    const uint64_t bytes = std::min(piece_bytes, it.length_bytes - at);
    it.error_number = read_piece(it.fd, piece_, bytes, it.offset_bytes + at);
    it.is_same = it.error_number == 0 && std::memcmp(piece_, it.bytes + at, bytes) == 0;
  }
  if (it.is_direct) return;
  kernel::fadvise(it.fd, static_cast<off_t>(it.offset_bytes), static_cast<off_t>(it.length_bytes),
                  POSIX_FADV_DONTNEED);
}

void KeptWorker::tell_done() {
  if (is_told_.exchange(true)) return;
  constexpr eventfd_t one = 1;
  const bool is_heard = kernel::write(done_event_.get(), &one, sizeof one) > 0;
  if (!is_heard && is_refusal(errno)) end_refused("write", errno);
}

}  // namespace weightpager
