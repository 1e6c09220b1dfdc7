// Memory of this process's own, with no file behind it: zero, on whole pages, and in huge ones
// where the kernel has any. Pages come as they are written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "pager/base/result.h"

namespace weightpager {

/// Owns it. Movable.
class AnonymousMemory {
 public:
  /// 0 bytes make an empty one. `what` and `hint` are for the error: "weights that stay", and what
  /// mends that there is no memory for them.
  static Result<AnonymousMemory> make(uint64_t length_bytes, const std::string& what,
                                      const std::string& hint);

  AnonymousMemory() = default;
  AnonymousMemory(AnonymousMemory&& other) noexcept { *this = std::move(other); }
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(length_bytes_, other.length_bytes_);
    return *this;
  }
  ~AnonymousMemory();

  std::byte* at(uint64_t offset_bytes) const { return address_ + offset_bytes; }
  uint64_t length_bytes() const { return length_bytes_; }

 private:
  std::byte* address_ = nullptr;
  uint64_t length_bytes_ = 0;
};

}  // namespace weightpager
