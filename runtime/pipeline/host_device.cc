// The processor as a device. Rings and pins are plain memory, and kernels run within `compute`.
// Copies exist to compare pipelines: a thread of their own makes them, so they overlap with both
// reads and kernels.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "pager/base/anonymous_memory.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/device.h"
#include "runtime/pipeline/mirrored_ring.h"
#include "runtime/pipeline/work_line.h"

namespace weightpager::pipeline {
namespace {

using telemetry::monotonic_ns;

struct Copy {
  enum class Kind { copy, stop };
  Kind kind = Kind::stop;
  UnitNumber unit = 0;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t length_bytes = 0;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(std::span<std::byte> arena) : arena_(arena) {}
  ~HostDevice() override {
    if (!copier_.joinable()) return;
    copies_line_.put({.kind = Copy::Kind::stop});
    copier_.join();
  }

  Status open(const DeviceNeeds& needs, DeviceListener& listener) override {
    listener_ = &listener;
    auto host_ring = MirroredRing::make(needs.rings.host_bytes);
    if (!host_ring) return forward_error(std::move(host_ring));
    host_ring_ = std::move(*host_ring);
    auto device_ring = MirroredRing::make(needs.rings.device_bytes);
    if (!device_ring) return forward_error(std::move(device_ring));
    device_ring_ = std::move(*device_ring);
    auto pinned = AnonymousMemory::make(needs.pinned_bytes, "weights that stay", smaller_window);
    if (!pinned) return forward_error(std::move(pinned));
    pinned_ = std::move(*pinned);
    if (!needs.has_copies) return {};
    auto copier = start_thread("wp-copier", [this] { copy_units(); });
    if (!copier) return forward_error(std::move(copier));
    copier_ = std::move(*copier);
    return {};
  }

  std::byte* host_address(const Place& place) const override {
    switch (place.memory) {
      case Place::Memory::none:
        return nullptr;
      case Place::Memory::host_ring:
        return host_ring_.at(place.offset_bytes);
      case Place::Memory::device_ring:
        return device_ring_.at(place.offset_bytes);
      case Place::Memory::pinned:
        return pinned_.at(place.offset_bytes);
      case Place::Memory::arena:
        return arena_.subspan(place.offset_bytes).data();
    }
    return nullptr;
  }
  const std::byte* kernel_address(const Place& place) const override { return host_address(place); }

  void start_copy(UnitNumber unit, const Place& from, const Place& to,
                  uint64_t length_bytes) override {
    copies_line_.put({.kind = Copy::Kind::copy,
                      .unit = unit,
                      .from = host_address(from),
                      .to = host_address(to),
                      .length_bytes = length_bytes});
  }
  uint32_t cancel_copies() override {
    return copies_line_.remove_if([](const Copy& it) { return it.kind == Copy::Kind::copy; });
  }

  Status compute(const UnitTask& task, UnitWork& work, const Meanwhile& meanwhile) override {
    if (Status computed = work.compute(task.unit, task.bytes, meanwhile); !computed) {
      return computed;
    }
    listener_->on_computed(task.number, TimeSpan{task.taken_ns, monotonic_ns()});
    return {};
  }
  void drain() override {}

  void let_go(const Place& place, uint64_t length_bytes) const override {
    if (place.memory == Place::Memory::host_ring) {
      host_ring_.forget_mirror(place.offset_bytes, length_bytes);
    } else if (place.memory == Place::Memory::device_ring) {
      device_ring_.forget_mirror(place.offset_bytes, length_bytes);
    }
  }
  void begin_anew() override {}
  bool kernels_follow_copies() const override { return false; }

 private:
  void copy_units() {
    for (;;) {
      const Copy copy = copies_line_.take();
      if (copy.kind == Copy::Kind::stop) return;
      const uint64_t start_ns = monotonic_ns();
      std::memcpy(copy.to, copy.from, copy.length_bytes);
      listener_->on_copied(copy.unit, TimeSpan{start_ns, monotonic_ns()});
    }
  }

  const std::span<std::byte> arena_;
  DeviceListener* listener_ = nullptr;
  MirroredRing host_ring_;
  MirroredRing device_ring_;
  AnonymousMemory pinned_;
  WorkLine<Copy> copies_line_;
  std::thread copier_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(std::span<std::byte> arena) {
  return std::make_unique<HostDevice>(arena);
}

}  // namespace weightpager::pipeline
