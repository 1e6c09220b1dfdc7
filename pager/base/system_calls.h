// The kernel's memory calls, without any library. The interposer defines functions of these names.
// The interposer itself and the pager's threads must not call those, so they call the kernel
// directly. (To look up libc's functions, dlsym would need memory, and so mmap, too early.)
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace weightpager::kernel {

inline void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}
inline int munmap(void* address, size_t length) {
  return static_cast<int>(syscall(SYS_munmap, address, length));
}
inline void* mremap(void* address, size_t old_length, size_t new_length, int flags, void* target) {
  return reinterpret_cast<void*>(
      syscall(SYS_mremap, address, old_length, new_length, flags, target));
}
inline int mprotect(void* address, size_t length, int protection) {
  return static_cast<int>(syscall(SYS_mprotect, address, length, protection));
}
inline int madvise(void* address, size_t length, int advice) {
  return static_cast<int>(syscall(SYS_madvise, address, length, advice));
}
/// Keeps the range out of child processes and core dumps. A core dump would be as long as a
/// reservation, although its bytes are in files.
inline void keep_to_process(void* address, size_t length) {
  madvise(address, length, MADV_DONTFORK);
  madvise(address, length, MADV_DONTDUMP);
}
inline int msync(void* address, size_t length, int flags) {
  return static_cast<int>(syscall(SYS_msync, address, length, flags));
}
inline int mincore(void* address, size_t length, unsigned char* pages) {
  return static_cast<int>(syscall(SYS_mincore, address, length, pages));
}
inline int mlock(const void* address, size_t length) {
  return static_cast<int>(syscall(SYS_mlock, address, length));
}
inline int mlock2(const void* address, size_t length, unsigned flags) {
  return static_cast<int>(syscall(SYS_mlock2, address, length, flags));
}
inline int munlock(const void* address, size_t length) {
  return static_cast<int>(syscall(SYS_munlock, address, length));
}
inline int mlockall(int flags) { return static_cast<int>(syscall(SYS_mlockall, flags)); }
/// Returns the error number, as posix_fadvise does.
inline int fadvise(int fd, off_t offset, off_t length, int advice) {
  return syscall(SYS_fadvise64, fd, offset, length, advice) == 0 ? 0 : errno;
}
inline ssize_t readahead(int fd, off_t offset, size_t count) {
  return syscall(SYS_readahead, fd, offset, count);
}

/// For descriptors of the pager's thread. Their numbers mean other files elsewhere in the process,
/// and a tool that watches descriptors by number, such as ThreadSanitizer, must not confuse them.
inline ssize_t read(int fd, void* buffer, size_t count) {
  return syscall(SYS_read, fd, buffer, count);
}
inline ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  return syscall(SYS_pread64, fd, buffer, count, offset);
}
inline ssize_t pwrite(int fd, const void* buffer, size_t count, off_t offset) {
  return syscall(SYS_pwrite64, fd, buffer, count, offset);
}
inline int fstat(int fd, struct stat* facts) {
  return static_cast<int>(syscall(SYS_fstat, fd, facts));
}
inline ssize_t write(int fd, const void* buffer, size_t count) {
  return syscall(SYS_write, fd, buffer, count);
}

inline ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, socket, message, flags);
}
inline ssize_t recvmsg(int socket, msghdr* message, int flags) {
  return syscall(SYS_recvmsg, socket, message, flags);
}

}  // namespace weightpager::kernel
