// System calls that read weights, where the pager may not serve the kernel's faults.
//
// A user without rights gets a userfaultfd that serves loads and stores only: write(2) or send(2)
// of a chunk that is absent fails with EFAULT, where with a file mapping it would have worked.
// Filling the chunk beforehand is not enough, because it may be evicted again before the kernel
// comes to it. So there, and only there, the bytes are copied out of the region by ordinary loads,
// which do wait, and the copy is sent. With rights, and for all other memory, the call goes through
// as it is.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "pager/preload/session.h"

#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

namespace preload = weightpager::preload;

namespace {

constexpr size_t piece_bytes = 64 * 1024;

bool must_copy(const void* buffer, size_t length) {
  return preload::is_active() && preload::kernel_cannot_wait() &&
         preload::touches_region(buffer, length);
}

// libc's own function of that name: it is a cancellation point, which a bare system call is not.
template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Sends piece by piece; `send_piece(piece, length, bytes sent before)` returns what write would.
template <typename SendPiece>
ssize_t send_copies(const void* buffer, size_t length, SendPiece send_piece) {
  char piece[piece_bytes];
  size_t sent = 0;
  while (sent < length) {
    const size_t wanted = std::min(length - sent, piece_bytes);
    std::memcpy(piece, static_cast<const char*>(buffer) + sent, wanted);
    const ssize_t done = send_piece(piece, wanted, sent);
    if (done < 0) return sent > 0 ? static_cast<ssize_t>(sent) : -1;
    sent += static_cast<size_t>(done);
    if (static_cast<size_t>(done) < wanted) break;
  }
  return static_cast<ssize_t>(sent);
}

// A datagram is one message: copied whole.
std::unique_ptr<char[]> copy_of(const void* buffer, size_t length) {
  std::unique_ptr<char[]> copy(new (std::nothrow) char[length]);
  if (copy) std::memcpy(copy.get(), buffer, length);
  return copy;
}

ssize_t out_of_memory() {
  errno = ENOBUFS;
  return -1;
}

}  // namespace

WP_INTERPOSE ssize_t write(int fd, const void* buffer, size_t length) {
  static const auto real = next(&write, "write");
  if (!must_copy(buffer, length)) return real(fd, buffer, length);
  return send_copies(buffer, length, [&](const char* piece, size_t bytes, size_t) {
    return real(fd, piece, bytes);
  });
}

WP_INTERPOSE ssize_t pwrite64(int fd, const void* buffer, size_t length, off64_t offset) {
  static const auto real = next(&pwrite64, "pwrite64");
  if (!must_copy(buffer, length)) return real(fd, buffer, length, offset);
  return send_copies(buffer, length, [&](const char* piece, size_t bytes, size_t sent) {
    return real(fd, piece, bytes, offset + static_cast<off64_t>(sent));
  });
}

WP_INTERPOSE ssize_t pwrite(int fd, const void* buffer, size_t length, off_t offset) {
  return pwrite64(fd, buffer, length, offset);
}

WP_INTERPOSE ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = next(&writev, "writev");
  const bool copies = std::any_of(parts, parts + std::max(count, 0), [](const iovec& part) {
    return must_copy(part.iov_base, part.iov_len);
  });
  if (!copies) return real(fd, parts, count);
  ssize_t sent = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t done = write(fd, parts[i].iov_base, parts[i].iov_len);
    if (done < 0) return sent > 0 ? sent : -1;
    sent += done;
    if (static_cast<size_t>(done) < parts[i].iov_len) break;
  }
  return sent;
}

WP_INTERPOSE ssize_t sendto(int fd, const void* buffer, size_t length, int flags,
                            const sockaddr* address, socklen_t address_length) {
  static const auto real = next(&sendto, "sendto");
  if (!must_copy(buffer, length)) return real(fd, buffer, length, flags, address, address_length);
  const auto copy = copy_of(buffer, length);
  if (!copy) return out_of_memory();
  return real(fd, copy.get(), length, flags, address, address_length);
}

WP_INTERPOSE ssize_t send(int fd, const void* buffer, size_t length, int flags) {
  static const auto real = next(&send, "send");
  if (!must_copy(buffer, length)) return real(fd, buffer, length, flags);
  const auto copy = copy_of(buffer, length);
  if (!copy) return out_of_memory();
  return real(fd, copy.get(), length, flags);
}

// libc's streams hand large buffers to the kernel without passing here.
WP_INTERPOSE size_t fwrite(const void* buffer, size_t size, size_t count, FILE* stream) {
  static const auto real = next(&fwrite, "fwrite");
  const size_t length = size * count;
  if (length == 0 || !must_copy(buffer, length)) return real(buffer, size, count, stream);
  const ssize_t sent = send_copies(buffer, length, [&](const char* piece, size_t bytes, size_t) {
    return static_cast<ssize_t>(real(piece, 1, bytes, stream));
  });
  return sent < 0 ? 0 : static_cast<size_t>(sent) / size;
}
