// The C API for C++: owning types, exceptions never. See weightpager.h for what each call promises.
#pragma once

#include <weightpager/weightpager.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace weightpager::api {

/// A pager that closes itself. Movable, not copyable.
class Pager {
 public:
  /// Empty, with weightpager_error() saying why, if it cannot be started.
  static std::optional<Pager> open(uint64_t window_bytes, const char* mapper = nullptr) {
    const weightpager_options options{sizeof(weightpager_options), window_bytes, mapper};
    weightpager_pager* handle = nullptr;
    if (weightpager_open(&options, &handle) != 0) return std::nullopt;
    return Pager(handle);
  }

  Pager(Pager&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Pager& operator=(Pager&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Pager() { weightpager_close(handle_); }

  /// The file's bytes; empty, with weightpager_error() saying why, if it cannot be mapped.
  std::span<const std::byte> map(const char* path) {
    uint64_t length_bytes = 0;
    const void* address = weightpager_map(handle_, path, &length_bytes);
    if (address == nullptr) return {};
    return {static_cast<const std::byte*>(address), length_bytes};
  }
  bool unmap(std::span<const std::byte> region) {
    return weightpager_unmap(handle_, region.data()) == 0;
  }
  void will_need(std::span<const std::byte> range) {
    weightpager_will_need(handle_, range.data(), range.size());
  }
  void consumed(std::span<const std::byte> range) {
    weightpager_consumed(handle_, range.data(), range.size());
  }
  weightpager_statistics statistics() const {
    weightpager_statistics it{};
    it.struct_bytes = sizeof it;
    weightpager_get_statistics(handle_, &it);
    return it;
  }

 private:
  explicit Pager(weightpager_pager* handle) : handle_(handle) {}
  weightpager_pager* handle_;
};

}  // namespace weightpager::api
