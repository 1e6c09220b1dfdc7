#include "pager/fault/userfaultfd.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/fault/held_wakes.h"
#include "pager/fault/userfaultfd_abi.h"
#include "pager/fault/userfaultfd_doors.h"

namespace weightpager::fault {
namespace {

// About 20 µs of trying.
constexpr uint32_t held_page_tries_max = 20;

tl::unexpected<Error> cannot_open(int error) {
  return fail(std::string("userfaultfd is not available: ") + std::strerror(error),
              error == ENOSYS
                  ? "this kernel is built without CONFIG_USERFAULTFD; weightpager needs it"
                  : "a container's seccomp filter often refuses it: allow the "
                    "userfaultfd system call, or give access to /dev/userfaultfd "
                    "(setfacl -m u:$USER:rw /dev/userfaultfd)",
              error);
}

// One pass of a filling ioctl: the kernel reports progress in a signed count that may be a short
// length or a negative errno, while the ioctl itself fails with EAGAIN in both cases.
Outcome outcome_of(int error) {
  if (error == EBUSY || error == EAGAIN) return Outcome::busy;
  if (error == EEXIST) return Outcome::exists;
  if (error == ESRCH) return Outcome::gone;
  if (is_refusal(error)) end_refused("ioctl", error);
  return Outcome::failed;
}

}  // namespace

Result<Userfaultfd> Userfaultfd::open() {
  Userfaultfd it;
  const auto* const door = std::find_if(doors.begin(), doors.end(), [&](Door tried) {
    it.fd_ = open_door(tried);
    return it.fd_ >= 0;
  });
  if (door == doors.end()) return cannot_open(errno);
  it.is_user_mode_only_ = !serves_all_faults(*door);

  // A kernel refuses a feature that it does not know, so only features that it has are asked for.
  constexpr __u64 shared_memory = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM;
  constexpr __u64 wanted = __u64{UFFD_FEATURE_MOVE} | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
                           UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_EXACT_ADDRESS |
                           UFFD_FEATURE_THREAD_ID | shared_memory;
  uffdio_api handshake{UFFD_API, features_behind(*door) & wanted, 0};
  it.has_move_ = (handshake.features & UFFD_FEATURE_MOVE) != 0;
  it.has_write_protection_ = (handshake.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
  it.has_shared_memory_ = (handshake.features & shared_memory) == shared_memory;
  it.can_hold_writes_ =
      it.has_write_protection_ && (handshake.features & UFFD_FEATURE_WP_HUGETLBFS_SHMEM) != 0;
  if (ioctl(it.fd_, UFFDIO_API, &handshake) != 0) return cannot_open(errno);
  return it;
}

Result<Userfaultfd> Userfaultfd::adopt(int fd) {
  Userfaultfd it;
  it.fd_ = fd;
  // The descriptor will be read and waited for, so nothing but a userfaultfd may pass for one.
  char kind[64] = {};
  const std::string link = "/proc/thread-self/fd/" + std::to_string(fd);
  if (readlink(link.c_str(), kind, sizeof kind - 1) < 0 ||
      std::strcmp(kind, "anon_inode:[userfaultfd]") != 0) {
    return fail("what was sent is no userfaultfd", "", EINVAL);
  }
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail(std::string("a userfaultfd that was sent: ") + std::strerror(errno), "", errno);
  }
  // Before its handshake a userfaultfd refuses every call, also this harmless one.
  uffdio_range anywhere{os_page_bytes, os_page_bytes};
  if (ioctl(fd, UFFDIO_WAKE, &anywhere) != 0) {
    return fail("the userfaultfd that was sent is not set up", "", EINVAL);
  }
  it.has_shared_memory_ = true;
  return it;
}

Userfaultfd::Userfaultfd(Userfaultfd&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      has_move_(other.has_move_),
      has_write_protection_(other.has_write_protection_),
      has_shared_memory_(other.has_shared_memory_),
      can_hold_writes_(other.can_hold_writes_),
      is_user_mode_only_(other.is_user_mode_only_) {}

Userfaultfd::~Userfaultfd() {
  if (fd_ >= 0) ::close(fd_);
}

Status Userfaultfd::register_range(void* address, uint64_t length_bytes, bool tells_writes) {
  const bool can_tell = tells_writes && has_write_protection_;
  return register_as(UFFDIO_REGISTER_MODE_MISSING | (can_tell ? UFFDIO_REGISTER_MODE_WP : 0),
                     address, length_bytes);
}

Status Userfaultfd::register_view(void* address, uint64_t length_bytes) {
  return register_as(UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR, address,
                     length_bytes);
}

// A mapping that tells writes gets no huge entries, so the range is registered for that only while
// writes are held up.
Status Userfaultfd::hold_writes(void* address, uint64_t length_bytes) {
  Status held = register_as(
      UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP, address,
      length_bytes);
  if (!held) return held;
  if (protect(address, length_bytes, true) == Outcome::done) return {};
  const int error = errno;
  release_writes(address, length_bytes);
  return fail(std::string("holding up writes with userfaultfd: ") + std::strerror(error), "",
              error);
}

// The kernel takes no way of telling back but all of them. Between the two calls a touch shows the
// page without a message: it is the right page, as the memory has all pages of the range.
void Userfaultfd::release_writes(void* address, uint64_t length_bytes) {
  protect(address, length_bytes, false);
  unregister_range(address, length_bytes);
  // Nobody would serve the range any more.
  if (!register_view(address, length_bytes)) end_refused("ioctl", errno);
}

Status Userfaultfd::register_as(uint64_t mode, void* address, uint64_t length_bytes) {
  uffdio_register request{};
  request.range.start = reinterpret_cast<uintptr_t>(address);
  request.range.len = length_bytes;
  request.mode = mode;
  if (ioctl(fd_, UFFDIO_REGISTER, &request) == 0) return {};
  return fail(std::string("registering memory with userfaultfd: ") + std::strerror(errno),
              errno == ENOMEM ? "raise vm.max_map_count" : "", errno);
}

void Userfaultfd::unregister_range(void* address, uint64_t length_bytes) const {
  uffdio_range range{reinterpret_cast<uintptr_t>(address), length_bytes};
  ioctl(fd_, UFFDIO_UNREGISTER, &range);
}

size_t Userfaultfd::read_faults(std::span<Fault> faults) {
  std::array<uffd_msg, 64> messages;
  const size_t messages_max = std::min(faults.size(), messages.size());
  const ssize_t bytes = kernel::read(fd_, messages.data(), messages_max * sizeof(uffd_msg));
  if (bytes <= 0) {
    if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) end_refused("read", errno);
    return 0;
  }
  size_t count = 0;
  for (size_t i = 0; i < static_cast<size_t>(bytes) / sizeof(uffd_msg); ++i) {
    if (messages[i].event != UFFD_EVENT_PAGEFAULT) continue;
    const auto& fault = messages[i].arg.pagefault;
    faults[count++] = {.address = fault.address,
                       .is_write_to_protected = (fault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0,
                       .thread_id = fault.feat.ptid};
  }
  return count;
}

Outcome Userfaultfd::move(void* destination, void* source, uint64_t length_bytes) const {
  uint64_t done = 0;
  uint32_t refusals = 0;
  while (done < length_bytes) {
    uffdio_move request{};
    request.dst = reinterpret_cast<uintptr_t>(destination) + done;
    request.src = reinterpret_cast<uintptr_t>(source) + done;
    request.len = length_bytes - done;
    request.mode = UFFDIO_MOVE_MODE_DONTWAKE;
    if (ioctl(fd_, UFFDIO_MOVE, &request) == 0) return Outcome::done;
    const int error = errno;
    // Small pages move one by one and may stop half-way; what has moved stays moved.
    if (request.move > 0) {
      done += static_cast<uint64_t>(request.move);
      continue;
    }
    // A page is held. A read that has just ended, or a migration, holds it for microseconds: try
    // again. A pin holds it for long: put back what was moved, because a chunk has no state for
    // half.
    const bool is_held = error == EBUSY || error == EAGAIN;
    if (is_held && ++refusals < held_page_tries_max) continue;
    if (done > 0) {
      const Outcome undone = move(source, destination, done);
      WP_ASSERT(undone == Outcome::done);
    }
    errno = error;
    return outcome_of(error);
  }
  return Outcome::done;
}

Outcome Userfaultfd::copy(void* destination, const void* source, uint64_t length_bytes,
                          bool is_protected) const {
  uint64_t done = 0;
  bool goes_by_page = false;
  while (done < length_bytes) {
    uffdio_copy request{};
    request.dst = reinterpret_cast<uintptr_t>(destination) + done;
    request.src = reinterpret_cast<uintptr_t>(source) + done;
    request.len = goes_by_page ? os_page_bytes : length_bytes - done;
    request.mode = is_protected && has_write_protection_ ? UFFDIO_COPY_MODE_WP : 0;
    if (held_wakes_ != nullptr) request.mode |= UFFDIO_COPY_MODE_DONTWAKE;
    const bool is_fine = ioctl(fd_, UFFDIO_COPY, &request) == 0;
    const bool is_woken = held_wakes_ == nullptr;
    if (is_fine && !goes_by_page && done == 0 && is_woken) return Outcome::done;
    const int error = errno;
    if (is_fine || request.copy > 0) {
      done += static_cast<uint64_t>(request.copy);
    } else if (error == EEXIST) {
      done += os_page_bytes;  // this page is there already: go on behind it
    } else if (error == ENOENT && !goes_by_page) {
      goes_by_page = true;  // the range is divided between mappings
    } else if (error != EAGAIN) {
      errno = error;
      return outcome_of(error);
    }
  }
  wake(destination, length_bytes);
  return Outcome::done;
}

Outcome Userfaultfd::show(void* address, uint64_t length_bytes) const {
  uint64_t done = 0;
  // Advice on parts of a mapping divides it, and the kernel takes no range across such a border.
  bool goes_by_page = false;
  uint32_t refusals = 0;
  while (done < length_bytes) {
    uffdio_continue request{};
    request.range.start = reinterpret_cast<uintptr_t>(address) + done;
    request.range.len = goes_by_page ? os_page_bytes : length_bytes - done;
    request.mode = UFFDIO_CONTINUE_MODE_DONTWAKE;
    const bool is_fine = ioctl(fd_, UFFDIO_CONTINUE, &request) == 0;
    const int error = errno;
    if (is_fine || request.mapped > 0) {
      done += static_cast<uint64_t>(request.mapped);
    } else if (error == EEXIST) {
      done += os_page_bytes;
    } else if (error == ENOENT && !goes_by_page) {
      goes_by_page = true;
    } else if (error != EAGAIN || ++refusals == held_page_tries_max) {
      errno = error;
      return outcome_of(error);
    }
  }
  wake(address, length_bytes);
  return Outcome::done;
}

Outcome Userfaultfd::protect(void* address, uint64_t length_bytes, bool is_protected) const {
  if (!has_write_protection_) return Outcome::done;
  uffdio_writeprotect request{};
  request.range.start = reinterpret_cast<uintptr_t>(address);
  request.range.len = length_bytes;
  request.mode = is_protected ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  for (;;) {
    if (ioctl(fd_, UFFDIO_WRITEPROTECT, &request) == 0) return Outcome::done;
    if (errno != EAGAIN) return outcome_of(errno);
  }
}

Outcome Userfaultfd::zero(void* destination, uint64_t length_bytes) const {
  uffdio_zeropage request{};
  request.range.start = reinterpret_cast<uintptr_t>(destination);
  request.range.len = length_bytes;
  return ioctl(fd_, UFFDIO_ZEROPAGE, &request) == 0 ? Outcome::done : outcome_of(errno);
}

void Userfaultfd::wake(void* address, uint64_t length_bytes) const {
  if (held_wakes_ != nullptr) {
    return held_wakes_->add(reinterpret_cast<uintptr_t>(address), length_bytes);
  }
  uffdio_range range{reinterpret_cast<uintptr_t>(address), length_bytes};
  // A thread that is not woken waits for ever.
  if (ioctl(fd_, UFFDIO_WAKE, &range) != 0) end_refused("ioctl", errno);
}

}  // namespace weightpager::fault
