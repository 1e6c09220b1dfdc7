#include "pager/window/slot_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/own_limits.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/window/page_size.h"

namespace weightpager::window {
namespace {

// Gets memory by touching it. Advice (MADV_POPULATE_WRITE) would keep the process's mappings locked
// for as long as a batch takes, and hold up the pager, 20 ms at a time. The bytes written are not
// zero, because a page of zeros would be given up when its huge page is taken apart (Linux 6.12).
void get_memory(std::byte* address, uint64_t length_bytes) {
  for (uint64_t at = 0; at < length_bytes; at += os_page_bytes) {
    reinterpret_cast<volatile char*>(address)[at] = 1;
  }
}

// Cold advice on a part of a huge page splits the page into small ones, and harms nothing. Where
// the kernel refuses the advice, the first move has to split the page. By then another slot of the
// same page may be read into, which forbids the split, so that moves would be refused again and
// again.
void take_huge_pages_apart(std::byte* address, uint64_t length_bytes) {
  for (uint64_t at = 0; at < length_bytes; at += huge_page_bytes) {
    kernel::madvise(address + at, os_page_bytes, MADV_COLD);
  }
}

// Gives the range memory, in huge pages where the kernel has them. For smaller slots a huge page is
// taken apart, but its parts still lie side by side in memory: a read into a slot is one piece for
// the device. (Scattered pages are a piece each, and a queue of 256 places is full with 1 MiB:
// mixtures were read at 1.3 instead of 2.3 GiB/s.)
void populate(std::byte* address, uint64_t length_bytes, uint64_t chunk_bytes) {
  kernel::madvise(address, length_bytes, MADV_HUGEPAGE);
  get_memory(address, length_bytes);
  advise_page_size(address, length_bytes, chunk_bytes);
  if (chunk_bytes < huge_page_bytes) take_huge_pages_apart(address, length_bytes);
}

// The pager's thread has priority over the engine's, and so do the threads that it starts. This
// thread takes the engine's priority.
void go_beside_the_engine() {
  const int engine_nice = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), engine_nice);
}

}  // namespace

Result<std::unique_ptr<SlotPool>> SlotPool::create(uint32_t slots, uint64_t chunk_bytes,
                                                   SlotPoolOptions options) {
  std::unique_ptr<SlotPool> it(new SlotPool(slots, chunk_bytes, std::move(options)));
  const uint64_t length_bytes = uint64_t{slots} * chunk_bytes;
  it->reservation_bytes_ = length_bytes + huge_page_bytes;
  it->reservation_ = kernel::mmap(nullptr, it->reservation_bytes_, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (it->reservation_ == MAP_FAILED) {
    const int error = errno;
    it->reservation_ = nullptr;
    return fail("reserving " + format_size(it->reservation_bytes_) +
                    " of address space for the window: " + std::strerror(error),
                address_limit_hint(), error);
  }
  const auto start = reinterpret_cast<uintptr_t>(it->reservation_);
  it->base_ = reinterpret_cast<std::byte*>(round_up(start, huge_page_bytes));
  // UFFDIO_MOVE asks for equal flags on pool and regions. Neither a child process nor a core dump
  // gets either of them.
  advise_page_size(it->base_, length_bytes, chunk_bytes);
  kernel::keep_to_process(it->base_, length_bytes);
  return it;
}

SlotPool::~SlotPool() {
  stopping_.store(true);
  wanted_.store(UINT32_MAX);
  wanted_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  if (reservation_ != nullptr) kernel::munmap(reservation_, reservation_bytes_);
}

void SlotPool::want(uint32_t wanted, void (*announce)(void*), void* context) {
  wanted = std::min(wanted, slots_);
  if (wanted <= wanted_.load(std::memory_order_relaxed)) return;
  wanted_.store(wanted);
  wanted_.notify_all();
  if (threads_[0].joinable() || threads_[1].joinable()) return;
  for (std::thread& thread : threads_) {
    auto started =
        start_thread("wp-memory", [this, announce, context] { populate_ahead(announce, context); });
    if (started) thread = std::move(*started);
  }
  if (threads_[0].joinable() || threads_[1].joinable()) return;
  // No thread can be started: the caller gets the memory itself, and waits.
  populate(address(populated_), uint64_t{wanted - populated_} * chunk_bytes_, chunk_bytes_);
  populated_.store(wanted);
}

void SlotPool::empty(SlotId slot) { kernel::madvise(address(slot), chunk_bytes_, MADV_DONTNEED); }

void SlotPool::refill(SlotId slot) { get_memory(address(slot), chunk_bytes_); }

void SlotPool::populate_ahead(void (*announce)(void*), void* context) {
  for (;;) {
    const uint32_t batch = next_batch_.fetch_add(1);
    const uint32_t first = batch * batch_slots_;
    if (first >= slots_) return;
    for (uint32_t wanted = wanted_.load(); wanted <= first; wanted = wanted_.load()) {
      wanted_.wait(wanted);
    }
    if (stopping_.load()) return;
    // One thread at a time: advice waits while the other thread gets a page, and as long as it
    // waits, nothing in the process can be moved.
    if (first >= options_.urgent_slots) {
      go_beside_the_engine();
      const MutexLock one_at_a_time(growing_mutex_);
      if (stopping_.load()) return;
      populate_batch(first);
    } else {
      populate_batch(first);
    }
    if (finish_batch(batch)) announce(context);
  }
}

void SlotPool::populate_batch(uint32_t first) {
  if (options_.before_memory) options_.before_memory(first);
  populate(address(first), std::min(batch_slots_, slots_ - first) * chunk_bytes_, chunk_bytes_);
}

// Returns whether more slots have memory without a gap before them.
bool SlotPool::finish_batch(uint32_t batch) {
  const MutexLock lock(mutex_);
  is_finished_[batch] = true;
  const uint32_t before = populated_.load(std::memory_order_relaxed);
  uint32_t populated = before;
  while (populated < slots_ && is_finished_[populated / batch_slots_]) {
    populated = std::min(populated + batch_slots_, slots_);
  }
  populated_.store(populated, std::memory_order_release);
  return populated > before;
}

}  // namespace weightpager::window
