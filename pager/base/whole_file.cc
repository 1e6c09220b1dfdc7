#include "pager/base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/memory_room.h"
#include "pager/base/owned_fd.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager {
namespace {

constexpr size_t piece_bytes_min = 64 * KiB;
/// The worst case: an empty list in a list is 3 bytes of text and some 80 bytes of memory.
constexpr uint64_t json_expansion = 32;

}  // namespace

Result<std::string> read_to_end(int fd, const std::string& path, uint64_t bytes_max,
                                const std::string& what) {
  struct stat status {};
  if (fstat(fd, &status) != 0) status.st_size = 0;
  // The size is only a hint: it is 0 for a pipe, and a file may grow.
  const auto expected_bytes = std::min(static_cast<uint64_t>(status.st_size), bytes_max);
  std::string text;
  for (;;) {
    const size_t done = text.size();
    if (done > bytes_max) {
      return fail(
          path + ": has more than " + format_size(bytes_max) + ", which " + what + " does not take",
          "give the path of " + what, EFBIG);
    }
    // Asking for one byte more than expected finds the end.
    const uint64_t left = done < expected_bytes + 1 ? expected_bytes + 1 - done : 0;
    text.resize(
        done + std::min<uint64_t>(std::max<uint64_t>(left, piece_bytes_min), bytes_max + 1 - done));
    ssize_t got = 0;
    do {
      got = kernel::read(fd, text.data() + done, text.size() - done);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      const int error_number = errno;
      return fail(path + ": cannot be read: " + std::strerror(error_number),
                  error_number == EIO ? "look into `dmesg` for what the disk says" : "",
                  error_number);
    }
    text.resize(done + static_cast<size_t>(got));
    if (got == 0) return text;
  }
}

Result<std::string> read_whole_file(const std::string& path, uint64_t bytes_max,
                                    const std::string& what) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd.is_open() || fstat(fd.get(), &status) != 0) {
    const int error_number = errno;
    return fail(path + ": cannot be opened: " + std::strerror(error_number),
                error_number == ENOENT ? "check the path" : "", error_number);
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(path + ": is a directory, expected " + what, "give the path of the file", EISDIR);
  }
  // A pipe's writer may take its time, so reads block from now on.
  if (!S_ISREG(status.st_mode)) fcntl(fd.get(), F_SETFL, O_RDONLY);
  return read_to_end(fd.get(), path, bytes_max, what);
}

Result<std::string> read_whole_json(const std::string& path, uint64_t bytes_max,
                                    const std::string& what) {
  auto text = read_whole_file(path, bytes_max, what);
  if (!text) return text;
  Status fits = check_room(
      {.what = path + ": reading this JSON", .bytes = text->size() * json_expansion}, "");
  if (!fits) return forward_error(std::move(fits));
  return text;
}

}  // namespace weightpager
