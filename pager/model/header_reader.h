// Reads a model file's header, usually front to back, and does not believe a word of it.
//
// Every read is checked against the file's size before anything is allocated or copied. The first
// failure sticks: from then on reads give zeros and the parser, which looks at `ok` where it
// matters (in every loop), returns `take_error`. So a parser reads like the format's description,
// and every error names file, byte offset, what was expected and what was found. Cost: pread of 256
// KiB pieces.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager::model {

template <typename T>
concept Scalar = std::is_arithmetic_v<T>;

/// Used by one thread at a time. Movable.
class HeaderReader {
 public:
  /// Opens a regular file that is not empty; anything else is refused by name.
  static Result<HeaderReader> open(const std::string& path);
  /// The same of a file that is open already; `path` is for errors.
  static Result<HeaderReader> of(OwnedFd fd, const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t position_bytes() const { return position_bytes_; }
  uint64_t remaining_bytes() const { return size_bytes_ - position_bytes_; }

  bool ok() const { return !error_.has_value(); }
  /// Requires !ok().
  tl::unexpected<Error> take_error();

  /// The little-endian number at the position; `what` names it in the error. 0 after a failure.
  template <Scalar T>
  T read(std::string_view what);

  /// `length_bytes` bytes; fails beyond `length_bytes_max`, so that no header decides how much is
  /// allocated. Empty after a failure.
  std::string read_text(uint64_t length_bytes, uint64_t length_bytes_max, std::string_view what);

  void skip(uint64_t length_bytes, std::string_view what);

  /// For formats that are not read front to back. Requires an offset within the file or at its end.
  void go_to(uint64_t offset_bytes);

  /// The first bytes of the file, at most `bytes.size()`; does not move the position. Returns how
  /// many.
  size_t peek_start(std::span<std::byte> bytes);

  /// Records the failure "<path>, byte <offset>: expected <expected>, found <found>", unless one is
  /// recorded already. Returns false, for `return reader.mismatch(…)`.
  bool mismatch(uint64_t offset_bytes, std::string_view expected, std::string_view found,
                std::string_view hint = {});
  /// The same for what a newer writer may do rightly (a version, a rank): Error::error_number is
  /// ENOTSUP, and the file is paged in file order (model.h, open_model_to_page) instead of refused.
  bool unknown(uint64_t offset_bytes, std::string_view expected, std::string_view found,
               std::string_view hint = {});

 private:
  HeaderReader() = default;

  bool has_remaining(uint64_t length_bytes, std::string_view what);
  /// Copies from the position on and moves it. Requires that the bytes are inside the file.
  void copy(std::byte* destination, size_t length_bytes);
  bool refill();

  std::string path_;
  OwnedFd fd_;
  uint64_t size_bytes_ = 0;
  uint64_t position_bytes_ = 0;
  std::vector<std::byte> buffer_;
  uint64_t buffer_offset_bytes_ = 0;
  size_t buffered_bytes_ = 0;
  std::optional<Error> error_;
};

/// A name out of a file, safe for a terminal: control characters are escaped.
std::string printable(std::string_view name);

/// The same for error messages: in quotes, and cut at 64 bytes.
std::string quote_name(std::string_view name);

template <Scalar T>
T HeaderReader::read(std::string_view what) {
  static_assert(std::endian::native == std::endian::little);
  T value{};
  if (has_remaining(sizeof value, what)) copy(reinterpret_cast<std::byte*>(&value), sizeof value);
  return ok() ? value : T{};
}

}  // namespace weightpager::model
