#include "runtime/network/float_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "pager/base/memory_room.h"
#include "pager/base/units.h"

namespace weightpager::network {

namespace {

// For less than this, the check for room would take longer than the allocation.
constexpr uint64_t much_bytes = 4 * MiB;

}  // namespace

FloatReader::FloatReader(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  // No readahead.
  if (fd_.is_open()) posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM);
}

Result<std::vector<float>> FloatReader::read(uint64_t offset_bytes, uint64_t count) const {
  if (count * sizeof(float) >= much_bytes) {
    Status fits =
        check_room({.what = fmt::format("{}, byte {}: a layer's weights", path_, offset_bytes),
                    .bytes = 2 * count * sizeof(float)},
                   "");
    if (!fits) return forward_error(std::move(fits));
  }
  std::vector<float> floats(count);
  const auto bytes = std::as_writable_bytes(std::span(floats));
  for (uint64_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(fd_.get(), bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int error_number = got == 0 ? ENODATA : errno;
      return fail(
          fmt::format("{}, byte {}: {}", path_, offset_bytes + done, std::strerror(error_number)),
          "copy the file anew, or look into `dmesg` for what the disk says", error_number);
    }
    done += static_cast<uint64_t>(got);
  }
  return floats;
}

}  // namespace weightpager::network
