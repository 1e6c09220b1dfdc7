// Where faults come from: one userfaultfd for all regions of a process.
//
// A touch of an absent chunk stops the toucher in the kernel and puts a message into this
// descriptor. The wrapper is thin on purpose: it opens the descriptor by whichever door is open,
// reads messages, and knows the four ioctls that the mappers need, with the kernel's odd answers
// (short counts, -errno in the count) turned into one result type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pager/base/result.h"

namespace weightpager::fault {

class HeldWakes;

/// What became of an ioctl that fills or moves pages.
enum class Outcome {
  done,
  busy,    // EBUSY, EAGAIN: somebody holds the page right now (a read that just ended); try again
  exists,  // EEXIST: the destination already has a page
  gone,    // ESRCH: the process whose memory it is has ended
  failed,  // anything else; errno says what
};

/// A thread stands still at `address`: the byte that it touched, or, on kernels before 5.18, the
/// beginning of that byte's page. (Where two tensors meet within a page, the byte tells which of
/// them was touched.)
struct Fault {
  uintptr_t address = 0;
  /// True: the page is there, but protected, and the thread wants to write to it.
  bool is_write_to_protected = false;
  uint32_t thread_id = 0;
};

class Userfaultfd {
 public:
  /// Goes through the first of the doors (userfaultfd_doors.h) that is open.
  static Result<Userfaultfd> open();
  /// A userfaultfd that another process opened with open() and sent. Its faults are read and
  /// answered here, in that process's memory. Takes the descriptor over, and closes it on failure.
  static Result<Userfaultfd> adopt(int fd);
  Userfaultfd(Userfaultfd&& other) noexcept;
  Userfaultfd& operator=(Userfaultfd&&) = delete;
  /// Closing makes absent chunks readable as zeros: only ever called when no region exists.
  ~Userfaultfd();

  int fd() const { return fd_; }
  bool has_move() const { return has_move_; }
  /// False: writes cannot be told (kernels before 5.7, some architectures), and asking for that
  /// does nothing.
  bool has_write_protection() const { return has_write_protection_; }
  /// Whether memory that others share can be registered (Linux 5.14).
  bool has_shared_memory() const { return has_shared_memory_; }
  /// Whether writes to a view of shared memory can be held up (Linux 5.19).
  bool can_hold_writes() const { return can_hold_writes_; }
  /// True: faults inside system calls are not served (EFAULT there), see design decision 9.
  bool is_user_mode_only() const { return is_user_mode_only_; }

  /// From now on, a touch of a page in [address, +length) that is not there is a message. With
  /// `tells_writes`, so is a write to a page that came in protected.
  Status register_range(void* address, uint64_t length_bytes, bool tells_writes = false);
  /// The same for a view of shared memory: a touch is also a message where the memory has the page
  /// already, but the view does not show it.
  Status register_view(void* address, uint64_t length_bytes);
  /// Threads that write to pages of the view stand still from now on, until `release_writes`. Pages
  /// that a huge entry of the page table shows are no longer shown. Requires can_hold_writes() and
  /// a range that register_view() has. If this fails, nobody is held up.
  Status hold_writes(void* address, uint64_t length_bytes);
  /// The threads go on. A message of a write that was held up may still be under way.
  void release_writes(void* address, uint64_t length_bytes);
  /// The range is ordinary memory again.
  void unregister_range(void* address, uint64_t length_bytes) const;

  /// Reads pending faults; returns how many. Never blocks.
  size_t read_faults(std::span<Fault> faults);

  /// Moves whole pages, huge ones in one step. Wakes nobody.
  Outcome move(void* destination, void* source, uint64_t length_bytes) const;
  /// Copies into absent pages and wakes the threads that wait for them. Pages that are there
  /// already are kept. `is_protected`: writing to the pages is a message from the moment they are
  /// there.
  Outcome copy(void* destination, const void* source, uint64_t length_bytes,
               bool is_protected = false) const;
  /// Makes a write to pages that are there a message, or no message any more (and wakes the
  /// writers).
  Outcome protect(void* address, uint64_t length_bytes, bool is_protected) const;
  /// Shows pages of shared memory in a view of it, and wakes the threads that wait for them. The
  /// memory has to have all of these pages. Pages that are shown already (or that were written, and
  /// are the writer's own) stay.
  Outcome show(void* address, uint64_t length_bytes) const;
  /// Fills absent pages with zeros.
  Outcome zero(void* destination, uint64_t length_bytes) const;
  /// Lets the threads that wait in the range try again.
  void wake(void* address, uint64_t length_bytes) const;
  /// Whom `copy`, `show` and `wake` would wake is noted there from now on (held_wakes.h); nullptr:
  /// they are woken at once.
  void hold_wakes(HeldWakes* held) { held_wakes_ = held; }

 private:
  Userfaultfd() = default;
  Status register_as(uint64_t mode, void* address, uint64_t length_bytes);
  int fd_ = -1;
  HeldWakes* held_wakes_ = nullptr;
  bool has_move_ = false;
  bool has_write_protection_ = false;
  bool has_shared_memory_ = false;
  bool can_hold_writes_ = false;
  bool is_user_mode_only_ = false;
};

}  // namespace weightpager::fault
