#include "pager/loop/content_workers.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"

namespace weightpager {

void carry_out(ContentWork& work) {
  if (work.zeroes) std::memset(work.bytes, 0, work.length_bytes);
  if (work.source != nullptr) std::memcpy(work.bytes, work.source, work.copied_bytes);
  work.is_all_zero = work.looks_for_zeros && spill::is_all_zero(work.bytes, work.length_bytes);
  work.has_zero_page = (work.may_be_unfinished || work.looks_for_zero_page) && !work.is_all_zero &&
                       spill::has_zero_page(work.bytes, work.length_bytes);
  work.is_unfinished = work.may_be_unfinished && work.has_zero_page;
  if (work.hashes && !work.is_all_zero && !work.is_unfinished) {
    work.hash = spill::content_hash(work.bytes, work.length_bytes);
  }
}

Status ContentWorkers::open() {
  done_event_ = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done_event_.is_open()) {
    return fail(std::string("cannot make an eventfd: ") + std::strerror(errno),
                "raise the limit on open files: `ulimit -n`", errno);
  }
  for (Worker& worker : workers_) {
    auto thread = start_thread("wp-content", [this, &worker] { serve(worker); });
    if (thread) worker.thread = std::move(*thread);
  }
  return {};
}

void ContentWorkers::close() {
  is_ending_.store(true);
  for (Worker& worker : workers_) {
    if (!worker.thread.joinable()) continue;
    worker.bell.fetch_add(1);
    worker.bell.notify_one();
    worker.thread.join();
  }
  done_event_ = {};
}

// Nobody, if all have as much to do as they have places for.
ContentWorkers::Worker* ContentWorkers::least_busy() {
  Worker* chosen = nullptr;
  for (Worker& worker : workers_) {
    const bool has_room = worker.thread.joinable() && worker.in_flight < places;
    if (has_room && (chosen == nullptr || worker.in_flight < chosen->in_flight)) chosen = &worker;
  }
  return chosen;
}

bool ContentWorkers::start(ContentWork& work) {
  Worker* const chosen = least_busy();
  if (chosen == nullptr || !chosen->asked.push(work)) {
    carry_out(work);
    return false;
  }
  ++chosen->in_flight;
  ++in_flight_;
  chosen->bell.fetch_add(1);
  chosen->bell.notify_one();
  return true;
}

// What is done after this has begun is told anew.
std::span<const ContentWork> ContentWorkers::take_done(bool is_told) {
  if (!done_event_.is_open()) return {};
  eventfd_t count = 0;
  if (is_told) kernel::read(done_event_.get(), &count, sizeof count);
  is_told_.store(false);
  uint32_t taken = 0;
  for (Worker& worker : workers_) {
    while (worker.in_flight > 0 && worker.done.pop(taken_[taken])) {
      ++taken;
      --worker.in_flight;
      --in_flight_;
    }
  }
  return {taken_.data(), taken};
}

void ContentWorkers::serve(Worker& worker) {
  ContentWork work;
  for (;;) {
    const uint32_t rung = worker.bell.load();
    if (is_ending_.load()) return;
    if (!worker.asked.pop(work)) {
      worker.bell.wait(rung);
      continue;
    }
    carry_out(work);
    worker.done.push(work);  // there is room: no more is asked than both queues have places
    tell_done();
  }
}

void ContentWorkers::tell_done() {
  if (is_told_.exchange(true)) return;
  constexpr eventfd_t one = 1;
  const bool is_heard = kernel::write(done_event_.get(), &one, sizeof one) > 0;
  if (!is_heard && is_refusal(errno)) end_refused("write", errno);
}

}  // namespace weightpager
