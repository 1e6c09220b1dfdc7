#include "pager/window/memory_file.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "pager/base/assert.h"
#include "pager/base/own_limits.h"
#include "pager/base/owned_fd.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/window/large_folios.h"
#include "pager/window/page_size.h"

namespace weightpager::window {
namespace {

int make_filesystem(uint64_t length_bytes) {
  const OwnedFd context(static_cast<int>(syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
  const auto configure = [&](unsigned command, const char* key, const char* value) {
    return syscall(SYS_fsconfig, context.get(), command, key, value, 0) == 0;
  };
  // By default a tmpfs takes at most half of the machine's memory.
  const std::string size = std::to_string(length_bytes + huge_page_bytes);
  const bool is_made = context.is_open() && configure(FSCONFIG_SET_STRING, "huge", "always") &&
                       configure(FSCONFIG_SET_STRING, "size", size.c_str()) &&
                       configure(FSCONFIG_SET_STRING, "mode", "0700") &&
                       configure(FSCONFIG_CMD_CREATE, nullptr, nullptr);
  if (!is_made) return -1;
  return static_cast<int>(syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0));
}

OwnedFd make_huge_file(uint64_t length_bytes) {
  const OwnedFd root(make_filesystem(length_bytes));
  if (!root.is_open()) return {};
  return OwnedFd(::openat(root.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

}  // namespace

Result<std::unique_ptr<MemoryFile>> MemoryFile::create(uint64_t length_bytes,
                                                       uint64_t chunk_bytes) {
  WP_ASSERT(length_bytes % chunk_bytes == 0);
  const auto no = [&](const char* step, const char* hint) {
    const int error = errno;
    return fail(std::string(step) + " for " + format_size(length_bytes) +
                    " of memory to be shared: " + std::strerror(error),
                hint, error);
  };
  std::unique_ptr<MemoryFile> it(new MemoryFile(chunk_bytes));
  it->length_bytes_ = length_bytes;
  if (chunk_bytes == huge_page_bytes) it->file_ = make_huge_file(length_bytes);
  it->has_huge_pages_ = it->file_.is_open();
  if (!it->has_huge_pages_) it->file_ = OwnedFd(memfd_create("weightpager", MFD_CLOEXEC));
  if (!it->file_.is_open()) return no("making a file", "raise `ulimit -n`");
  if (ftruncate(it->file_.get(), static_cast<off_t>(length_bytes)) != 0) {
    return no("sizing a file", "raise the limit on file sizes (ulimit -f)");
  }
  // "self" would name the first thread, whose descriptor table may be another one.
  const std::string link = "/proc/thread-self/fd/" + std::to_string(it->file_.get());
  it->view_ = OwnedFd(::open(link.c_str(), O_RDONLY | O_CLOEXEC));
  if (!it->view_.is_open()) return no("opening a file again", "mount /proc");

  void* got = kernel::mmap(nullptr, length_bytes + huge_page_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return no("reserving addresses", address_limit_hint());
  it->reservation_ = got;
  it->base_ =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(got), huge_page_bytes));
  if (kernel::mmap(it->base_, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   it->file_.get(), 0) == MAP_FAILED) {
    return no("mapping a file", address_limit_hint());
  }
  // The administrator chooses whether a memfd has large pages; this advice is stronger.
  if (gives_folios_of(chunk_bytes)) {
    kernel::madvise(it->base_, length_bytes, MADV_HUGEPAGE);
  } else if (chunk_bytes < huge_page_bytes) {
    advise_page_size(it->base_, length_bytes, chunk_bytes);
  }
  kernel::keep_to_process(it->base_, length_bytes);
  return it;
}

MemoryFile::~MemoryFile() {
  if (reservation_ != nullptr) kernel::munmap(reservation_, length_bytes_ + huge_page_bytes);
}

void MemoryFile::finish_chunk(uint64_t offset_bytes) const {
  // In a shared mapping only the page-table entries go, not the pages.
  kernel::madvise(base_ + offset_bytes, chunk_bytes_, MADV_DONTNEED);
}

void MemoryFile::give_back(uint64_t offset_bytes, uint64_t length_bytes) const {
  const int done = fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                             static_cast<off_t>(offset_bytes), static_cast<off_t>(length_bytes));
  if (done != 0 && is_refusal(errno)) end_refused("fallocate", errno);
  // The call is for whole chunks of an unsealed file in memory and has no reason to fail. A chunk
  // that stayed would be shown with bytes that nobody looks after.
  WP_ASSERT(done == 0);
}

}  // namespace weightpager::window
