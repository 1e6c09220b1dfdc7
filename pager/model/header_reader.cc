// Reading a header: see header_reader.h.
#include "pager/model/header_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::model {
namespace {

constexpr size_t buffer_bytes = 256 * KiB;
constexpr std::string_view truncated_hint =
    "the file seems to be cut off; compare its size with the original and download it again";

tl::unexpected<Error> not_a_file(const std::string& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode))
    return fail(fmt::format("{}: expected a model file, found a directory", path),
                "give the path of the model file", EISDIR);
  return fail(fmt::format("{}: expected a regular file, found a {}", path,
                          S_ISFIFO(status.st_mode) ? "pipe" : "device or socket"),
              "a model is read at many places at once: store it in a file first", EINVAL);
}

}  // namespace

Result<HeaderReader> HeaderReader::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  return of(OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), path);
}

Result<HeaderReader> HeaderReader::of(OwnedFd fd, const std::string& path) {
  struct stat status {};
  if (!fd.is_open() || fstat(fd.get(), &status) != 0) {
    const int error_number = errno;
    return fail(fmt::format("{}: cannot open the file: {}", path, std::strerror(error_number)),
                error_number == ENOENT ? "check the path" : "", error_number);
  }
  if (!S_ISREG(status.st_mode)) return not_a_file(path, status);
  if (status.st_size == 0)
    return fail(fmt::format("{}, byte 0: expected a model, found an empty file", path),
                "the download or copy that made it did not finish; do it again");

  HeaderReader reader;
  reader.path_ = path;
  reader.fd_ = std::move(fd);
  reader.size_bytes_ = static_cast<uint64_t>(status.st_size);
  reader.buffer_.resize(std::min<uint64_t>(buffer_bytes, reader.size_bytes_));
  return reader;
}

tl::unexpected<Error> HeaderReader::take_error() {
  WP_ASSERT(error_.has_value());
  return tl::make_unexpected(std::move(*error_));
}

std::string HeaderReader::read_text(uint64_t length_bytes, uint64_t length_bytes_max,
                                    std::string_view what) {
  const uint64_t start = position_bytes_;
  if (!has_remaining(length_bytes, what)) return {};
  if (length_bytes > length_bytes_max) {
    mismatch(start, fmt::format("{} of at most {} bytes", what, length_bytes_max),
             fmt::format("{} bytes", length_bytes));
    return {};
  }
  std::string text(length_bytes, '\0');
  copy(reinterpret_cast<std::byte*>(text.data()), text.size());
  return ok() ? text : std::string();
}

void HeaderReader::skip(uint64_t length_bytes, std::string_view what) {
  if (has_remaining(length_bytes, what)) position_bytes_ += length_bytes;
}

void HeaderReader::go_to(uint64_t offset_bytes) {
  WP_ASSERT(offset_bytes <= size_bytes_);
  position_bytes_ = offset_bytes;
}

size_t HeaderReader::peek_start(std::span<std::byte> bytes) {
  WP_ASSERT(position_bytes_ == 0);
  const size_t length = std::min<uint64_t>(bytes.size(), size_bytes_);
  copy(bytes.data(), length);
  position_bytes_ = 0;
  return ok() ? length : 0;
}

bool HeaderReader::mismatch(uint64_t offset_bytes, std::string_view expected,
                            std::string_view found, std::string_view hint) {
  if (ok())
    error_ = Error{
        fmt::format("{}, byte {}: expected {}, found {}", path_, offset_bytes, expected, found),
        std::string(hint)};
  return false;
}

bool HeaderReader::unknown(uint64_t offset_bytes, std::string_view expected, std::string_view found,
                           std::string_view hint) {
  const bool is_first = ok();
  mismatch(offset_bytes, expected, found, hint);
  if (is_first) error_->error_number = ENOTSUP;
  return false;
}

bool HeaderReader::has_remaining(uint64_t length_bytes, std::string_view what) {
  if (!ok()) return false;
  if (length_bytes <= remaining_bytes()) return true;
  return mismatch(position_bytes_, fmt::format("{} ({} bytes)", what, length_bytes),
                  fmt::format("the end of the file after {} bytes", remaining_bytes()),
                  truncated_hint);
}

void HeaderReader::copy(std::byte* destination, size_t length_bytes) {
  while (length_bytes > 0) {
    const bool is_buffered = position_bytes_ >= buffer_offset_bytes_ &&
                             position_bytes_ < buffer_offset_bytes_ + buffered_bytes_;
    if (!is_buffered && !refill()) return;
    const size_t start = position_bytes_ - buffer_offset_bytes_;
    const size_t piece = std::min(length_bytes, buffered_bytes_ - start);
    std::memcpy(destination, buffer_.data() + start, piece);
    destination += piece;
    length_bytes -= piece;
    position_bytes_ += piece;
  }
}

bool HeaderReader::refill() {
  ssize_t length = 0;
  do {
    length = pread(fd_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(position_bytes_));
  } while (length < 0 && errno == EINTR);
  if (length < 0) {
    error_ = Error{fmt::format("{}, byte {}: cannot read the header: {}", path_, position_bytes_,
                               std::strerror(errno)),
                   {},
                   errno};
    return false;
  }
  if (length == 0)
    return mismatch(position_bytes_, fmt::format("a file of {} bytes", size_bytes_),
                    "the end of the file",
                    "the file was made shorter while it was read; wait until it is complete");
  buffer_offset_bytes_ = position_bytes_;
  buffered_bytes_ = static_cast<size_t>(length);
  return true;
}

std::string printable(std::string_view name) {
  std::string text;
  for (const char character : name) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += character;
  }
  return text;
}

std::string quote_name(std::string_view name) {
  constexpr size_t length_max = 64;
  return fmt::format("'{}{}'", printable(name.substr(0, length_max)),
                     name.size() > length_max ? "…" : "");
}

}  // namespace weightpager::model
