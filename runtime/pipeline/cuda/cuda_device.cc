// See cuda_device.h.
#include "runtime/pipeline/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "pager/base/anonymous_memory.h"
#include "pager/base/assert.h"
#include "runtime/pipeline/cuda/device_memory.h"
#include "runtime/pipeline/cuda/stage.h"
#include "runtime/pipeline/cuda/status.h"
#include "runtime/pipeline/mirrored_ring.h"

namespace weightpager::cuda {
namespace {

using pipeline::DeviceListener;
using pipeline::DeviceNeeds;
using pipeline::Meanwhile;
using pipeline::MirroredRing;
using pipeline::Place;
using pipeline::TimeSpan;
using pipeline::UnitNumber;
using pipeline::UnitTask;
using pipeline::UnitWork;

/// Lets the GPU reach memory of the host for as long as this object lives.
class Registration {
 public:
  Registration() = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    if (address_ != nullptr) cudaHostUnregister(address_);
  }

  Status add(std::byte* address, uint64_t length_bytes, bool is_for_kernels) {
    if (length_bytes == 0) return {};
    const unsigned flags = is_for_kernels ? cudaHostRegisterMapped : cudaHostRegisterDefault;
    Status registered = check(cudaHostRegister(address, length_bytes, flags),
                              "the host's ring cannot be pinned for the GPU");
    if (!registered) return registered;
    address_ = address;
    if (!is_for_kernels) return {};
    void* mapped = nullptr;
    registered = check(cudaHostGetDevicePointer(&mapped, address, 0),
                       "the GPU cannot compute from the host's memory (--pipeline async can)");
    mapped_ = static_cast<std::byte*>(mapped);
    return registered;
  }

  /// The GPU's address of the memory's beginning.
  const std::byte* mapped() const { return mapped_; }

 private:
  std::byte* address_ = nullptr;
  std::byte* mapped_ = nullptr;
};

class CudaDevice final : public pipeline::Device {
 public:
  explicit CudaDevice(cudaStream_t compute_stream) : compute_stream_(compute_stream) {}
  ~CudaDevice() override;

  Status open(const DeviceNeeds& needs, DeviceListener& listener) override;

  std::byte* host_address(const Place& place) const override;
  const std::byte* kernel_address(const Place& place) const override;
  void start_copy(UnitNumber unit, const Place& from, const Place& to,
                  uint64_t length_bytes) override;
  // A copy that is in a stream cannot be taken out.
  uint32_t cancel_copies() override { return 0; }
  Status compute(const UnitTask& task, UnitWork& work, const Meanwhile& meanwhile) override;
  void drain() override;
  void let_go(const Place& place, uint64_t length_bytes) const override;
  void begin_anew() override;
  bool kernels_follow_copies() const override { return true; }

 private:
  Status take_host_memory(const DeviceNeeds& needs);
  Status take_device_memory(const DeviceNeeds& needs);
  Status enqueue_copy(UnitNumber unit, const Place& from, std::byte* to, uint64_t length_bytes);

  const cudaStream_t compute_stream_;
  bool has_copies_ = false;
  // Registrations are destroyed before their memory.
  MirroredRing host_ring_;
  Registration host_ring_registration_;
  AnonymousMemory pinned_on_host_;
  Registration pinned_registration_;
  DeviceRing device_ring_;
  DeviceMemory pinned_on_device_;
  Stream copy_stream_;
  Stage copies_;
  // Waits for the copies' reports, so it is destroyed first.
  Stage kernels_;
};

// A unit whose work could be put in line only in part has no report. That work must be over before
// anything is destroyed.
CudaDevice::~CudaDevice() {
  if (copy_stream_) cudaStreamSynchronize(copy_stream_.get());
  cudaStreamSynchronize(compute_stream_);
}

Status CudaDevice::open(const DeviceNeeds& needs, DeviceListener& listener) {
  has_copies_ = needs.has_copies;
  if (Status taken = take_host_memory(needs); !taken) return taken;
  if (Status taken = take_device_memory(needs); !taken) return taken;
  if (has_copies_) {
    auto copy_stream = make_stream();
    if (!copy_stream) return forward_error(std::move(copy_stream));
    copy_stream_ = std::move(*copy_stream);
    Status opened = copies_.open("wp-copies", copy_stream_.get(), needs.units_under_way_max,
                                 [&listener](UnitNumber unit, Result<TimeSpan> when) {
                                   listener.on_copied(unit, std::move(when));
                                 });
    if (!opened) return opened;
  }
  return kernels_.open("wp-kernels", compute_stream_, needs.units_under_way_max,
                       [this, &listener](UnitNumber unit, Result<TimeSpan> when) {
                         // The copy is over, but the copies' thread may not have reported it yet.
                         copies_.wait_until_reported(unit);
                         listener.on_computed(unit, std::move(when));
                       });
}

Status CudaDevice::take_host_memory(const DeviceNeeds& needs) {
  auto host_ring = MirroredRing::make(needs.rings.host_bytes);
  if (!host_ring) return forward_error(std::move(host_ring));
  host_ring_ = std::move(*host_ring);
  // A copy that reaches over the ring's end is made in two parts, so it needs no mirror; a kernel
  // needs the mirror.
  const uint64_t registered_bytes = (has_copies_ ? 1 : 2) * host_ring_.capacity_bytes();
  Status registered = host_ring_registration_.add(host_ring_.at(0), registered_bytes, !has_copies_);
  if (!registered || has_copies_) return registered;
  auto pinned =
      AnonymousMemory::make(needs.pinned_bytes, "weights that stay", pipeline::smaller_window);
  if (!pinned) return forward_error(std::move(pinned));
  pinned_on_host_ = std::move(*pinned);
  return pinned_registration_.add(pinned_on_host_.at(0), pinned_on_host_.length_bytes(), true);
}

Status CudaDevice::take_device_memory(const DeviceNeeds& needs) {
  auto device_ring = DeviceRing::make(needs.rings.device_bytes, needs.piece_bytes_max);
  if (!device_ring) return forward_error(std::move(device_ring));
  device_ring_ = std::move(*device_ring);
  if (!has_copies_) return {};
  auto pinned = DeviceMemory::make(needs.pinned_bytes, "weights");
  if (!pinned) return forward_error(std::move(pinned));
  pinned_on_device_ = std::move(*pinned);
  return {};
}

std::byte* CudaDevice::host_address(const Place& place) const {
  switch (place.memory) {
    case Place::Memory::none:
      return nullptr;
    case Place::Memory::host_ring:
      return host_ring_.at(place.offset_bytes);
    case Place::Memory::pinned:
      WP_ASSERT(!has_copies_);
      return pinned_on_host_.at(place.offset_bytes);
    case Place::Memory::device_ring:
      WP_ASSERT(!"nothing is read to the GPU's ring");
    case Place::Memory::arena:
      WP_ASSERT(!"a GPU has no arena overlay");
  }
  return nullptr;
}

const std::byte* CudaDevice::kernel_address(const Place& place) const {
  switch (place.memory) {
    case Place::Memory::none:
      return nullptr;
    case Place::Memory::host_ring:
      return host_ring_registration_.mapped() + place.offset_bytes;
    case Place::Memory::device_ring:
      return device_ring_.at(place.offset_bytes);
    case Place::Memory::pinned:
      if (has_copies_) return pinned_on_device_.at(place.offset_bytes);
      return pinned_registration_.mapped() + place.offset_bytes;
    case Place::Memory::arena:
      WP_ASSERT(!"a GPU has no arena overlay");
  }
  return nullptr;
}

void CudaDevice::start_copy(UnitNumber unit, const Place& from, const Place& to,
                            uint64_t length_bytes) {
  WP_ASSERT(from.memory == Place::Memory::host_ring);
  auto* const there = const_cast<std::byte*>(kernel_address(to));
  Status enqueued = enqueue_copy(unit, from, there, length_bytes);
  if (!enqueued) copies_.fail(unit, std::move(enqueued).error());
}

Status CudaDevice::enqueue_copy(UnitNumber unit, const Place& from, std::byte* to,
                                uint64_t length_bytes) {
  if (Status begun = copies_.begin(unit); !begun) return begun;
  const uint64_t before_end_bytes =
      std::min(length_bytes, host_ring_.capacity_bytes() - from.offset_bytes);
  const uint64_t beyond_bytes = length_bytes - before_end_bytes;
  const auto copy = [&](std::byte* target, uint64_t offset_bytes, uint64_t count_bytes) {
    if (count_bytes == 0) return Status();
    return check(cudaMemcpyAsync(target, host_ring_.at(offset_bytes), count_bytes,
                                 cudaMemcpyHostToDevice, copy_stream_.get()),
                 "a layer cannot be copied to the GPU");
  };
  if (Status copied = copy(to, from.offset_bytes, before_end_bytes); !copied) return copied;
  if (Status copied = copy(to + before_end_bytes, 0, beyond_bytes); !copied) return copied;
  return copies_.end(unit);
}

Status CudaDevice::compute(const UnitTask& task, UnitWork& work, const Meanwhile& meanwhile) {
  if (has_copies_) {
    Status waits = check(cudaStreamWaitEvent(compute_stream_, copies_.finish_event(task.number), 0),
                         "the GPU takes no work");
    if (!waits) return waits;
  }
  if (Status begun = kernels_.begin(task.number); !begun) return begun;
  if (Status computed = work.compute(task.unit, task.bytes, meanwhile); !computed) return computed;
  return kernels_.end(task.number);
}

void CudaDevice::drain() {
  // Waits also for unreported work: work of a unit that failed after some of it was put in line.
  cudaStreamSynchronize(compute_stream_);
  kernels_.drain();
}

void CudaDevice::let_go(const Place& place, uint64_t length_bytes) const {
  // The GPU uses the mirror in the two-stage pipeline, so it stays there.
  if (has_copies_ && place.memory == Place::Memory::host_ring) {
    host_ring_.forget_mirror(place.offset_bytes, length_bytes);
  }
}

void CudaDevice::begin_anew() {
  if (has_copies_) copies_.begin_anew();
  kernels_.begin_anew();
}

}  // namespace

std::unique_ptr<pipeline::Device> make_cuda_device(cudaStream_t compute_stream) {
  return std::make_unique<CudaDevice>(compute_stream);
}

}  // namespace weightpager::cuda
