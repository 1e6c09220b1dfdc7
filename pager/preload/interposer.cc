// The calls that an engine makes on its weights, caught by LD_PRELOAD.
//
// An engine maps a model file, and advises, locks and unmaps parts of it. A call that has nothing
// to do with a region goes to the kernel unchanged. Any other call is answered so that the engine
// sees the same as with a file mapping, without the side effects that would read in the model. The
// symbols are those that engines import (`nm -D`): docs/explanation/engines.md.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/session.h"
#include "pager/preload/unseen_memory.h"
#include "pager/preload/witness.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

namespace preload = weightpager::preload;
namespace kernel = weightpager::kernel;

namespace {

bool is_ours(const void* address, size_t length) {
  return preload::is_active() && preload::touches_region(address, length);
}

int refuse(int error) {
  errno = error;
  return -1;
}

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (!preload::is_active()) return kernel::mmap(address, length, protection, flags, fd, offset);
  if (fd >= 0 && (flags & MAP_ANONYMOUS) == 0) {
    void* region = preload::map_model(length, protection, flags, fd, offset);
    if (region != nullptr) return region;
    preload::note_plain_mapping(length, protection, flags, fd);
  }
  if ((flags & MAP_ANONYMOUS) != 0) {
    const bool is_own_memory = (flags & MAP_PRIVATE) != 0 && (protection & PROT_WRITE) != 0;
    preload::note_anonymous_mapping(length, is_own_memory);
  }
  // A fixed mapping over a region replaces that part of it.
  if ((flags & MAP_FIXED) != 0 && preload::touches_region(address, length)) {
    preload::unmap(address, length);
  }
  return kernel::mmap(address, length, protection, flags, fd, offset);
}

// Carries out advice for a region. Returns an error number, or 0.
int advise(void* address, size_t length, int advice) {
  switch (advice) {
    case MADV_WILLNEED:
    case MADV_POPULATE_READ:
      // Advice for more than half of the window, such as the whole file at load, only means that a
      // pass begins.
      preload::will_need(address, length);
      return 0;
    case MADV_DONTNEED:
      preload::discard(address, length);
      return 0;
    case MADV_COLD:
    case MADV_PAGEOUT:
      preload::consumed(address, length);
      return 0;
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_COLLAPSE:
    case MADV_DODUMP:
    case MADV_DONTDUMP:
    case MADV_DOFORK:
    case MADV_DONTFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
      return 0;
    default:
      return EINVAL;
  }
}

}  // namespace

WP_INTERPOSE void* mmap(void* address, size_t length, int protection, int flags, int fd,
                        off_t offset) noexcept {
  return map(address, length, protection, flags, fd, offset);
}

WP_INTERPOSE void* mmap64(void* address, size_t length, int protection, int flags, int fd,
                          off64_t offset) noexcept {
  return map(address, length, protection, flags, fd, offset);
}

WP_INTERPOSE int munmap(void* address, size_t length) noexcept {
  if (!is_ours(address, length)) return kernel::munmap(address, length);
  return preload::unmap(address, length);
}

// A region that is moved or grown would lose its faults, and absent chunks would read as zeros.
WP_INTERPOSE void* mremap(void* address, size_t old_length, size_t new_length, int flags,
                          ...) noexcept {
  void* target = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list rest;
    va_start(rest, flags);
    target = va_arg(rest, void*);
    va_end(rest);
    if (is_ours(target, new_length)) preload::unmap(target, new_length);
  }
  if (!is_ours(address, old_length)) {
    return kernel::mremap(address, old_length, new_length, flags, target);
  }
  if ((flags & MREMAP_FIXED) == 0 && new_length <= old_length) {
    auto* end = static_cast<char*>(address) + new_length;
    if (new_length < old_length) preload::unmap(end, old_length - new_length);
    return address;
  }
  weightpager::notice("mremap of a model to another size or place is refused");
  errno = ENOMEM;
  return MAP_FAILED;
}

WP_INTERPOSE int mprotect(void* address, size_t length, int protection) noexcept {
  if (!is_ours(address, length)) return kernel::mprotect(address, length, protection);
  return preload::protect(address, length, protection);
}

WP_INTERPOSE int madvise(void* address, size_t length, int advice) noexcept {
  if (!is_ours(address, length)) return kernel::madvise(address, length, advice);
  const int error = advise(address, length, advice);
  return error == 0 ? 0 : refuse(error);
}

WP_INTERPOSE int posix_madvise(void* address, size_t length, int advice) noexcept {
  // glibc ignores POSIX_MADV_DONTNEED, because Linux's MADV_DONTNEED loses data and POSIX's must
  // not.
  if (advice == POSIX_MADV_DONTNEED) return 0;
  if (is_ours(address, length)) return advise(address, length, advice);
  return kernel::madvise(address, length, advice) == 0 ? 0 : errno;
}

// Advice on the file itself would fill the page cache, which the pager bypasses.
WP_INTERPOSE int posix_fadvise(int fd, off_t offset, off_t length, int advice) noexcept {
  if (preload::is_active() && preload::is_model_file(fd)) return 0;
  return kernel::fadvise(fd, offset, length, advice);
}

WP_INTERPOSE int posix_fadvise64(int fd, off64_t offset, off64_t length, int advice) noexcept {
  return posix_fadvise(fd, offset, length, advice);
}

WP_INTERPOSE ssize_t readahead(int fd, off64_t offset, size_t count) noexcept {
  if (preload::is_active() && preload::is_model_file(fd)) return 0;
  return kernel::readahead(fd, offset, count);
}

// If a pipe referred to a page of a region, it would show another chunk's bytes as soon as the page
// had been moved out and read into again. A copy shows the bytes that a file mapping would show.
WP_INTERPOSE ssize_t vmsplice(int fd, const iovec* parts, size_t count, unsigned flags) {
  for (size_t i = 0; i < count; ++i) {
    if (is_ours(parts[i].iov_base, parts[i].iov_len))
      return writev(fd, parts, static_cast<int>(count));
  }
  return syscall(SYS_vmsplice, fd, parts, count, flags);
}

// A lock promises to keep pages in memory. For a region the window alone decides that.
WP_INTERPOSE int mlock(const void* address, size_t length) noexcept {
  return is_ours(address, length) ? 0 : kernel::mlock(address, length);
}

WP_INTERPOSE int mlock2(const void* address, size_t length, unsigned flags) noexcept {
  return is_ours(address, length) ? 0 : kernel::mlock2(address, length, flags);
}

WP_INTERPOSE int munlock(const void* address, size_t length) noexcept {
  return is_ours(address, length) ? 0 : kernel::munlock(address, length);
}

WP_INTERPOSE int mlockall(int flags) noexcept {
  if (!preload::is_active()) return kernel::mlockall(flags);
  weightpager::notice("mlockall would pull the whole model in: ignored");
  return 0;
}

WP_INTERPOSE int msync(void* address, size_t length, int flags) {
  return is_ours(address, length) ? 0 : kernel::msync(address, length, flags);
}

WP_INTERPOSE int mincore(void* address, size_t length, unsigned char* pages) noexcept {
  if (!is_ours(address, length)) return kernel::mincore(address, length, pages);
  if (reinterpret_cast<uintptr_t>(address) % weightpager::os_page_bytes != 0) return refuse(EINVAL);
  preload::residency(address, weightpager::round_up(length, weightpager::os_page_bytes), pages);
  return 0;
}
