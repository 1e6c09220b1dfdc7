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
  static std::optional<Pager> open(uint64_t window_bytes, const char* mapper = nullptr,
                                   bool listens = false) {
    const weightpager_options options{sizeof(weightpager_options), window_bytes, mapper, listens};
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

class Stream;

/// A layer of a stream, until this object goes. Movable, not copyable. The stream outlives it.
class HeldLayer {
 public:
  HeldLayer(HeldLayer&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)),
        layer_(other.layer_),
        bytes_(other.bytes_) {}
  HeldLayer& operator=(HeldLayer&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(layer_, other.layer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldLayer() {
    if (stream_ != nullptr) weightpager_stream_release(stream_, layer_);
  }

  uint32_t layer() const { return layer_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  friend class Stream;
  HeldLayer(weightpager_stream* stream, uint32_t layer, std::span<const std::byte> bytes)
      : stream_(stream), layer_(layer), bytes_(bytes) {}
  weightpager_stream* stream_;
  uint32_t layer_;
  std::span<const std::byte> bytes_;
};

/// A stream of layers that closes itself. Movable, not copyable.
class Stream {
 public:
  /// Empty, with weightpager_error() saying why, if it cannot be opened. Without `layers`: those of
  /// the model in the file.
  static std::optional<Stream> open(const char* path, uint64_t window_bytes,
                                    std::span<const weightpager_layer> layers = {}) {
    const weightpager_stream_options options{sizeof(weightpager_stream_options),
                                             static_cast<uint32_t>(layers.size()), window_bytes,
                                             layers.empty() ? nullptr : layers.data()};
    weightpager_stream* handle = nullptr;
    if (weightpager_stream_open(path, &options, &handle) != 0) return std::nullopt;
    return Stream(handle);
  }

  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Stream() { weightpager_stream_close(handle_); }

  std::span<const weightpager_layer> layers() const {
    const weightpager_layer* layers = nullptr;
    const uint32_t count = weightpager_stream_layers(handle_, &layers);
    return {layers, count};
  }
  /// Empty, with weightpager_error() saying why, if it does not come.
  std::optional<HeldLayer> acquire(uint32_t layer) {
    uint64_t length_bytes = 0;
    const void* address = weightpager_stream_acquire(handle_, layer, &length_bytes);
    if (address == nullptr) return std::nullopt;
    return HeldLayer(handle_, layer, {static_cast<const std::byte*>(address), length_bytes});
  }
  bool will_need(uint32_t layer) {
    return weightpager_stream_advise(handle_, WEIGHTPAGER_STREAM_WILL_NEED, layer) == 0;
  }
  void last_pass() { weightpager_stream_advise(handle_, WEIGHTPAGER_STREAM_LAST_PASS, 0); }
  weightpager_stream_statistics statistics() const {
    weightpager_stream_statistics it{};
    it.struct_bytes = sizeof it;
    weightpager_stream_get_statistics(handle_, &it);
    return it;
  }

 private:
  explicit Stream(weightpager_stream* handle) : handle_(handle) {}
  weightpager_stream* handle_;
};

}  // namespace weightpager::api
