// System calls that read weights, and inside which the kernel must not wait for the pager.
//
// There are two kinds of such calls. The first kind holds a lock while it waits: write(2) holds the
// lock of its file, or of its pipe. If the file is the weights' own, the pager's read waits for
// that lock, and both wait for ever. The lock of another file must not be held either, because two
// engines can write into each other's files. The second kind are all calls of a user without
// rights, whose userfaultfd serves loads and stores only: then write(2) or send(2) of an absent
// chunk fails with EFAULT. It does not help to fill the chunk beforehand, because it may be evicted
// again before the kernel reads it. So for these calls, and only for them, the bytes are copied out
// of the region first, and the copy is sent. (Calls that read no memory of the engine never wait
// for the pager: sendfile, splice, copy_file_range, fallocate, truncate.)
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "pager/base/system_calls.h"
#include "pager/preload/session.h"

#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

namespace preload = weightpager::preload;

namespace kernel = weightpager::kernel;

namespace {

using Parts = std::span<const iovec>;

// One call sends at most so many bytes. Messages are shorter, and files may be written in pieces.
constexpr size_t piece_bytes_max = size_t{1} << 20;

/// Whether a write to the descriptor holds a lock that others, such as the pager, may need.
bool is_locked_by_writers(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return false;
  return S_ISREG(facts.st_mode) || S_ISBLK(facts.st_mode) || S_ISFIFO(facts.st_mode);
}

bool is_weights(const void* buffer, size_t length) {
  return preload::is_active() && preload::touches_region(buffer, length);
}

bool must_copy(const void* buffer, size_t length) {
  return preload::kernel_cannot_wait() && is_weights(buffer, length);
}

bool must_copy(int fd, Parts parts) {
  const bool is_any_ours = std::any_of(parts.begin(), parts.end(), [](const iovec& part) {
    return is_weights(part.iov_base, part.iov_len);
  });
  return is_any_ours && (preload::kernel_cannot_wait() || is_locked_by_writers(fd));
}

Parts parts_of(const iovec* parts, int count) {
  return {parts, static_cast<size_t>(std::max(count, 0))};
}

size_t length_of(Parts parts) {
  size_t length = 0;
  for (const iovec& part : parts) length += part.iov_len;
  return length;
}

// libc's own function of that name. It is a cancellation point; a bare system call is none.
template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Memory for a copy. It does not come from malloc, because a signal handler may write, nor from
/// the stack, which may be small. It is aligned as direct writes require.
class Scratch {
 public:
  explicit Scratch(size_t length)
      : length_(length),
        bytes_(kernel::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                            -1, 0)) {}
  ~Scratch() {
    if (is_there()) kernel::munmap(bytes_, length_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool is_there() const { return bytes_ != MAP_FAILED; }
  size_t length() const { return length_; }
  char* bytes() const { return static_cast<char*>(bytes_); }

 private:
  size_t length_;
  void* bytes_;
};

/// Copies weights outside of any lock, and waits for the pager meanwhile. Returns the number of
/// bytes. -1 if none can be read, with the errno of a failed system call. (A user without the right
/// to let the kernel wait gets the signal instead.)
ssize_t copy_weights(char* to, const void* from, size_t length) {
  if (!preload::kernel_cannot_wait()) {
    const iovec target{to, length};
    const iovec source{const_cast<void*>(from), length};
    const ssize_t copied = process_vm_readv(getpid(), &target, 1, &source, 1, 0);
    const bool is_refused = copied < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES);
    if (!is_refused) return copied;
  }
  std::memcpy(to, from, length);
  return static_cast<ssize_t>(length);
}

/// Copies as much of the parts as fits, from byte `begin` on. Returns the length, or -1 like
/// copy_weights().
ssize_t gather(const Scratch& scratch, Parts parts, size_t begin) {
  size_t gathered = 0;
  for (const iovec& part : parts) {
    const size_t skipped = std::min(begin, part.iov_len);
    begin -= skipped;
    const size_t wanted = std::min(part.iov_len - skipped, scratch.length() - gathered);
    if (wanted == 0) continue;
    const ssize_t copied = copy_weights(scratch.bytes() + gathered,
                                        static_cast<const char*>(part.iov_base) + skipped, wanted);
    if (copied < 0 && gathered == 0) return -1;
    gathered += static_cast<size_t>(std::max<ssize_t>(copied, 0));
    if (copied != static_cast<ssize_t>(wanted)) break;
  }
  return static_cast<ssize_t>(gathered);
}

// Sends piece by piece; `send_piece(piece, length, bytes sent before)` returns the same as
// write(2).
template <typename SendPiece>
ssize_t send_copies(Parts parts, SendPiece send_piece) {
  const size_t length = length_of(parts);
  const Scratch scratch(std::min(length, piece_bytes_max));
  if (!scratch.is_there()) return -1;
  size_t sent = 0;
  while (sent < length) {
    const ssize_t gathered = gather(scratch, parts, sent);
    const ssize_t done =
        gathered < 0 ? -1 : send_piece(scratch.bytes(), static_cast<size_t>(gathered), sent);
    if (done < 0) return sent > 0 ? static_cast<ssize_t>(sent) : -1;
    sent += static_cast<size_t>(done);
    if (done < gathered || done == 0) break;
  }
  return static_cast<ssize_t>(sent);
}

using Fwrite = size_t(const void*, size_t, size_t, FILE*);

size_t send_to_stream(Fwrite* real, const void* buffer, size_t size, size_t count, FILE* stream) {
  const iovec part{const_cast<void*>(buffer), size * count};
  if (part.iov_len == 0 || !must_copy(fileno(stream), {&part, 1})) {
    return real(buffer, size, count, stream);
  }
  const ssize_t sent = send_copies({&part, 1}, [&](const char* piece, size_t bytes, size_t) {
    return static_cast<ssize_t>(real(piece, 1, bytes, stream));
  });
  return sent < 0 ? 0 : static_cast<size_t>(sent) / size;
}

// A datagram is one message, so it is copied whole.
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
  const iovec part{const_cast<void*>(buffer), length};
  if (!must_copy(fd, {&part, 1})) return real(fd, buffer, length);
  return send_copies(
      {&part, 1}, [&](const char* piece, size_t bytes, size_t) { return real(fd, piece, bytes); });
}

WP_INTERPOSE ssize_t pwrite64(int fd, const void* buffer, size_t length, off64_t offset) {
  static const auto real = next(&pwrite64, "pwrite64");
  const iovec part{const_cast<void*>(buffer), length};
  if (!must_copy(fd, {&part, 1})) return real(fd, buffer, length, offset);
  return send_copies({&part, 1}, [&](const char* piece, size_t bytes, size_t sent) {
    return real(fd, piece, bytes, offset + static_cast<off64_t>(sent));
  });
}

WP_INTERPOSE ssize_t pwrite(int fd, const void* buffer, size_t length, off_t offset) {
  return pwrite64(fd, buffer, length, offset);
}

WP_INTERPOSE ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = next(&writev, "writev");
  if (!must_copy(fd, parts_of(parts, count))) return real(fd, parts, count);
  return send_copies(parts_of(parts, count), [&](const char* piece, size_t bytes, size_t) {
    return write(fd, piece, bytes);
  });
}

WP_INTERPOSE ssize_t pwritev64v2(int fd, const iovec* parts, int count, off64_t offset, int flags) {
  static const auto real = next(&pwritev64v2, "pwritev64v2");
  if (!must_copy(fd, parts_of(parts, count))) return real(fd, parts, count, offset, flags);
  return send_copies(parts_of(parts, count), [&](char* piece, size_t bytes, size_t sent) {
    const iovec part{piece, bytes};
    // -1 stands for the file's own offset.
    const off64_t at = offset == -1 ? -1 : offset + static_cast<off64_t>(sent);
    return real(fd, &part, 1, at, flags);
  });
}

WP_INTERPOSE ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  return pwritev64v2(fd, parts, count, offset, flags);
}

WP_INTERPOSE ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  static const auto real = next(&pwritev64, "pwritev64");
  if (!must_copy(fd, parts_of(parts, count))) return real(fd, parts, count, offset);
  return send_copies(parts_of(parts, count), [&](const char* piece, size_t bytes, size_t sent) {
    return pwrite64(fd, piece, bytes, offset + static_cast<off64_t>(sent));
  });
}

WP_INTERPOSE ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  return pwritev64(fd, parts, count, offset);
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

// libc's streams pass large buffers to the kernel without calling the functions above.
WP_INTERPOSE size_t fwrite(const void* buffer, size_t size, size_t count, FILE* stream) {
  static const auto real = next(&fwrite, "fwrite");
  return send_to_stream(real, buffer, size, count, stream);
}

WP_INTERPOSE size_t fwrite_unlocked(const void* buffer, size_t size, size_t count, FILE* stream) {
  static const auto real = next(&fwrite_unlocked, "fwrite_unlocked");
  return send_to_stream(real, buffer, size, count, stream);
}
