// Calls that read a weights file into spilled memory. Whole chunks are not read, but noted: they
// get the file's bytes when they are touched (spilled_memory.h). So a model that an engine reads
// takes neither the time to read it at once, nor room in the spill file.
//
// Such a call reads at least a whole chunk of a spilled block, from a regular file that is large
// enough to hold weights. The bytes at both ends of the chunks are read as they would be, and the
// file position moves on as it would. Any other call goes to the next library's function. If
// anything is refused on the way, the real call is made, which returns the real error.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/error_kept.h"
#include "pager/preload/spilled_blocks.h"
#include "pager/preload/spilled_memory.h"

#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

namespace preload = weightpager::preload;
namespace kernel = weightpager::kernel;

// Programs that are compiled with _FORTIFY_SOURCE call these.
WP_INTERPOSE ssize_t __read_chk(int fd, void* to, size_t bytes, size_t room_bytes);
WP_INTERPOSE ssize_t __pread_chk(int fd, void* to, size_t bytes, off_t offset, size_t room_bytes);
WP_INTERPOSE ssize_t __pread64_chk(int fd, void* to, size_t bytes, off64_t offset,
                                   size_t room_bytes);
WP_INTERPOSE size_t __fread_chk(void* to, size_t room_bytes, size_t size, size_t count,
                                FILE* stream);
WP_INTERPOSE size_t __fread_unlocked_chk(void* to, size_t room_bytes, size_t size, size_t count,
                                         FILE* stream);

namespace {

using Targets = std::span<const iovec>;

// Smaller files are configurations and vocabularies.
constexpr off_t weights_file_bytes_min = 16 * weightpager::MiB;
// The kernel reads no more in one call.
constexpr size_t call_bytes_max = 0x7ffff000;

// ---- The next library's functions ----

#define WP_READING(each)                                                           \
  each(read) each(pread64) each(readv) each(preadv64) each(preadv64v2) each(fread) \
      each(fread_unlocked) each(__read_chk) each(__pread64_chk) each(__fread_chk)  \
          each(__fread_unlocked_chk)

#define WP_READER_MEMBER(name) decltype(&::name) name##_ = nullptr;
struct NextReaders {
  WP_READING(WP_READER_MEMBER)
};
NextReaders next_readers;

template <typename Function>
Function look_up_reader(Function& function, const char* name) {
  if (function == nullptr) function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  return function;
}
#define WP_NEXT_READER(name) look_up_reader(next_readers.name##_, #name)

// A child between fork and exec must not look them up.
__attribute__((constructor(101))) void look_up_readers() {
#define WP_LOOK_UP_READER(name) WP_NEXT_READER(name);
  WP_READING(WP_LOOK_UP_READER)
}

// An allocator that reads its settings, or one inside a look-up, may read before the constructor.
ssize_t read_by_next(int fd, void* to, size_t bytes) {
  return next_readers.read_ != nullptr ? next_readers.read_(fd, to, bytes)
                                       : kernel::read(fd, to, bytes);
}

// ---- What is noted ----

/// The whole chunks in a target.
weightpager::Span chunks_of(void* to, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(to);
  return preload::whole_chunks({begin, begin + bytes});
}

/// Whether the target has whole chunks of a spilled block. Cheap for all others.
bool has_chunks(void* to, size_t bytes) {
  return bytes >= preload::spilled_chunk_bytes && preload::may_be_large(to) &&
         !weightpager::takes_plain_memory && !chunks_of(to, bytes).is_empty() &&
         preload::is_in_spilled_block(to, bytes);
}

bool has_chunks(Targets targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [](const iovec& it) { return has_chunks(it.iov_base, it.iov_len); });
}

Targets targets_of(const iovec* targets, int count) {
  return {targets, static_cast<size_t>(std::clamp(count, 0, IOV_MAX))};
}

size_t length_of(Targets targets) {
  size_t bytes = 0;
  for (const iovec& it : targets) bytes = std::min(bytes + it.iov_len, call_bytes_max);
  return bytes;
}

/// How long the file is; nothing if it is none of weights that may be read.
std::optional<off_t> weights_file_bytes(int fd) {
  struct stat facts;
  if (kernel::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  if (facts.st_size < weights_file_bytes_min) return std::nullopt;
  const int flags = fcntl(fd, F_GETFL);
  // Who may write by this descriptor may do so before the bytes are touched.
  if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) != O_RDONLY) return std::nullopt;
  return facts.st_size;
}

/// Reads all of it, or says that it could not.
bool read_fully(int fd, void* to, size_t bytes, off_t offset) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = kernel::pread(fd, static_cast<std::byte*>(to) + done, bytes - done,
                                      offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

/// Fills a target from the file's offset on: by notes, and at the ends by reading. The kernel shall
/// read no more of such a file than it is asked for, from now on: it would read up to 16 MiB ahead,
/// and the pager would read most of that once more.
bool fill(int fd, void* to, size_t bytes, off_t offset) {
  if (!has_chunks(to, bytes)) return read_fully(fd, to, bytes, offset);
  const weightpager::Span chunks = chunks_of(to, bytes);
  auto* const first = reinterpret_cast<std::byte*>(chunks.begin);
  const auto front_bytes = static_cast<size_t>(first - static_cast<std::byte*>(to));
  const size_t noted_end = front_bytes + chunks.length_bytes();
  kernel::fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  const bool is_filled = read_fully(fd, to, front_bytes, offset) &&
                         read_fully(fd, first + chunks.length_bytes(), bytes - noted_end,
                                    offset + static_cast<off_t>(noted_end)) &&
                         preload::note_lazy_read(fd, static_cast<uint64_t>(offset) + front_bytes,
                                                 first, chunks.length_bytes());
  if (!is_filled) kernel::fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
  return is_filled;
}

/// Fills the targets with so many bytes, which the file has.
bool fill_all(int fd, Targets targets, size_t bytes, off_t offset) {
  size_t done = 0;
  for (const iovec& it : targets) {
    const size_t part_bytes = std::min(it.iov_len, bytes - done);
    if (!fill(fd, it.iov_base, part_bytes, offset + static_cast<off_t>(done))) return false;
    done += part_bytes;
  }
  return true;
}

/// How many bytes a read of so many at the offset returns.
size_t bytes_to_read(size_t bytes, off_t offset, off_t file_bytes) {
  if (offset >= file_bytes) return 0;
  return static_cast<size_t>(std::min(static_cast<off_t>(bytes), file_bytes - offset));
}

/// Reads at an offset. Nothing if the real call has to be made.
std::optional<ssize_t> read_lazily_at(int fd, Targets targets, off_t offset) {
  if (offset < 0 || !has_chunks(targets)) return std::nullopt;
  const preload::ErrorKept kept;
  const auto file_bytes = weights_file_bytes(fd);
  if (!file_bytes) return std::nullopt;
  const size_t bytes = bytes_to_read(length_of(targets), offset, *file_bytes);
  if (!fill_all(fd, targets, bytes, offset)) return std::nullopt;
  return static_cast<ssize_t>(bytes);
}

/// Reads at the file's position. Threads that read one descriptor must not get the same bytes, so
/// the position moves on first, which the kernel does in one step.
std::optional<ssize_t> read_lazily(int fd, Targets targets) {
  if (!has_chunks(targets)) return std::nullopt;
  const preload::ErrorKept kept;
  const auto file_bytes = weights_file_bytes(fd);
  const off_t expected = file_bytes ? lseek(fd, 0, SEEK_CUR) : -1;
  if (expected < 0) return std::nullopt;
  const size_t bytes = bytes_to_read(length_of(targets), expected, *file_bytes);
  const off_t after = lseek(fd, static_cast<off_t>(bytes), SEEK_CUR);
  const off_t offset = after - static_cast<off_t>(bytes);
  const bool is_read = after >= 0 && offset + static_cast<off_t>(bytes) <= *file_bytes &&
                       fill_all(fd, targets, bytes, offset);
  if (is_read) return static_cast<ssize_t>(bytes);
  if (after >= 0) lseek(fd, -static_cast<off_t>(bytes), SEEK_CUR);
  return std::nullopt;
}

// ---- Streams ----

using Fread = size_t(void*, size_t, size_t, FILE*);

/// Whether the stream's own position says where its next byte lies in the file: nothing is waiting
/// to be written, and no byte was pushed back.
bool is_plain_stream(FILE* stream) {
  constexpr int in_backup = 0x100;  // glibc's _IO_IN_BACKUP
  return __fwriting(stream) == 0 && (stream->_flags & in_backup) == 0 &&
         stream->_IO_save_base == nullptr && fileno_unlocked(stream) >= 0;
}

/// The stream is locked, or its caller needs no lock.
size_t read_stream(Fread* real, void* to, size_t size, size_t count, FILE* stream) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes) || !has_chunks(to, bytes) ||
      !is_plain_stream(stream))
    return real(to, size, count, stream);
  const int fd = fileno_unlocked(stream);
  const off64_t offset = ftello64(stream);
  const auto file_bytes = weights_file_bytes(fd);
  if (!file_bytes || offset < 0) return real(to, size, count, stream);
  const size_t there_bytes = bytes_to_read(bytes, offset, *file_bytes);
  const off64_t after = offset + static_cast<off64_t>(there_bytes);
  const bool is_read = fill(fd, to, there_bytes, offset) && fseeko64(stream, after, SEEK_SET) == 0;
  if (!is_read) return real(to, size, count, stream);
  // The real function notes the end of the file.
  const size_t rest_bytes = there_bytes == bytes ? 0
                                                 : real(static_cast<std::byte*>(to) + there_bytes,
                                                        1, bytes - there_bytes, stream);
  return (there_bytes + rest_bytes) / size;
}

size_t read_locked_stream(Fread* real, void* to, size_t size, size_t count, FILE* stream) {
  flockfile(stream);
  const size_t got = read_stream(real, to, size, count, stream);
  funlockfile(stream);
  return got;
}

/// Whether a stream may be read lazily, without looking at it.
bool may_read_lazily(void* to, size_t size, size_t count) {
  return preload::may_be_large(to) && size != 0 && count >= preload::spilled_chunk_bytes / size;
}

}  // namespace

WP_INTERPOSE ssize_t read(int fd, void* to, size_t bytes) {
  const iovec target{to, bytes};
  if (const auto got = read_lazily(fd, {&target, 1})) return *got;
  return read_by_next(fd, to, bytes);
}

WP_INTERPOSE ssize_t pread64(int fd, void* to, size_t bytes, off64_t offset) {
  const iovec target{to, bytes};
  if (const auto got = read_lazily_at(fd, {&target, 1}, offset)) return *got;
  return next_readers.pread64_ != nullptr ? next_readers.pread64_(fd, to, bytes, offset)
                                          : kernel::pread(fd, to, bytes, offset);
}

WP_INTERPOSE ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  return pread64(fd, to, bytes, offset);
}

WP_INTERPOSE ssize_t readv(int fd, const iovec* targets, int count) {
  if (const auto got = read_lazily(fd, targets_of(targets, count))) return *got;
  return WP_NEXT_READER(readv)(fd, targets, count);
}

WP_INTERPOSE ssize_t preadv64(int fd, const iovec* targets, int count, off64_t offset) {
  if (const auto got = read_lazily_at(fd, targets_of(targets, count), offset)) return *got;
  return WP_NEXT_READER(preadv64)(fd, targets, count, offset);
}

WP_INTERPOSE ssize_t preadv(int fd, const iovec* targets, int count, off_t offset) {
  return preadv64(fd, targets, count, offset);
}

WP_INTERPOSE ssize_t preadv64v2(int fd, const iovec* targets, int count, off64_t offset,
                                int flags) {
  if (flags == 0) {
    // -1 stands for the file's own position.
    const Targets all = targets_of(targets, count);
    const auto got = offset == -1 ? read_lazily(fd, all) : read_lazily_at(fd, all, offset);
    if (got) return *got;
  }
  return WP_NEXT_READER(preadv64v2)(fd, targets, count, offset, flags);
}

WP_INTERPOSE ssize_t preadv2(int fd, const iovec* targets, int count, off_t offset, int flags) {
  return preadv64v2(fd, targets, count, offset, flags);
}

// libc's streams read large buffers without calling the functions above.
WP_INTERPOSE size_t fread(void* to, size_t size, size_t count, FILE* stream) {
  const auto real = WP_NEXT_READER(fread);
  if (!may_read_lazily(to, size, count)) return real(to, size, count, stream);
  return read_locked_stream(real, to, size, count, stream);
}

WP_INTERPOSE size_t fread_unlocked(void* to, size_t size, size_t count, FILE* stream) {
  const auto real = WP_NEXT_READER(fread_unlocked);
  if (!may_read_lazily(to, size, count)) return real(to, size, count, stream);
  return read_stream(real, to, size, count, stream);
}

WP_INTERPOSE ssize_t __read_chk(int fd, void* to, size_t bytes, size_t room_bytes) {
  if (bytes > room_bytes) return WP_NEXT_READER(__read_chk)(fd, to, bytes, room_bytes);
  return read(fd, to, bytes);
}

WP_INTERPOSE ssize_t __pread64_chk(int fd, void* to, size_t bytes, off64_t offset,
                                   size_t room_bytes) {
  if (bytes > room_bytes) return WP_NEXT_READER(__pread64_chk)(fd, to, bytes, offset, room_bytes);
  return pread64(fd, to, bytes, offset);
}

WP_INTERPOSE ssize_t __pread_chk(int fd, void* to, size_t bytes, off_t offset, size_t room_bytes) {
  return __pread64_chk(fd, to, bytes, offset, room_bytes);
}

WP_INTERPOSE size_t __fread_chk(void* to, size_t room_bytes, size_t size, size_t count,
                                FILE* stream) {
  size_t bytes = 0;
  const bool is_too_much = __builtin_mul_overflow(size, count, &bytes) || bytes > room_bytes;
  if (is_too_much) return WP_NEXT_READER(__fread_chk)(to, room_bytes, size, count, stream);
  return fread(to, size, count, stream);
}

WP_INTERPOSE size_t __fread_unlocked_chk(void* to, size_t room_bytes, size_t size, size_t count,
                                         FILE* stream) {
  size_t bytes = 0;
  const bool is_too_much = __builtin_mul_overflow(size, count, &bytes) || bytes > room_bytes;
  if (is_too_much) return WP_NEXT_READER(__fread_unlocked_chk)(to, room_bytes, size, count, stream);
  return fread_unlocked(to, size, count, stream);
}
