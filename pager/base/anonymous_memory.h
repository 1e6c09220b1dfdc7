// Private memory without a file behind it: zeroed, in whole pages, and in huge pages if the kernel
// has any. A page takes memory from the first write on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "pager/base/result.h"

namespace weightpager {

/// Owns the memory. Movable.
class AnonymousMemory {
 public:
  /// 0 bytes make an empty object. `what` and `hint` are for the error: the purpose of the memory,
  /// such as "weights that stay", and a remedy for the lack of memory.
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
