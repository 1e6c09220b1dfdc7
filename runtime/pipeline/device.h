// The device that a pipeline runs on: the memory of the weights, the copies into it and the kernels
// that compute from it.
//
// Problem. The rules of a pipeline are the same on a processor and on a GPU, and so are its reads.
// Three things differ: what a copy is, how long a kernel goes on after the call that began it, and
// how its end becomes known.
//
// Idea. The executor (executor.h) keeps the schedule and the reader; a device has the memory, makes
// the copies and runs the kernels, and reports each once when it is over. A processor computes
// within the call (host_device.cc); a GPU only puts the work in line (cuda/cuda_device.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "pager/base/result.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

/// A GPU's driver maps memory in steps of this size. A ring on the GPU is mirrored if its size is a
/// multiple of this; otherwise the ring needs additional memory of the size of the largest piece.
inline constexpr uint64_t gpu_ring_step_bytes = 2u << 20;

/// Work that the thread that computes does besides a kernel. Other threads that compute the same
/// kernel may begin without that thread. May be empty.
using Meanwhile = std::function<void()>;

/// The work that the units stand for. The executor and the device call it.
class UnitWork {
 public:
  virtual ~UnitWork() = default;
  /// The unit's bytes have arrived. Checks them and changes them in place into the form that
  /// `compute` expects. Called on the driver's thread, once per read, before any other thread sees
  /// the bytes. Units of one inference come in order.
  virtual Status take_in(uint32_t unit, std::span<std::byte> bytes) = 0;
  /// `bytes` as in UnitTask. Called on the thread that called `Executor::run`, in order. On a GPU:
  /// starts the kernels, on the stream that the device was made with. Unless it fails, it calls
  /// `meanwhile` at least once, on its own thread, before it returns: a unit of several layers
  /// calls it for each. `meanwhile` may call `take_in` for other units; it does not touch this
  /// unit's bytes.
  virtual Status compute(uint32_t unit, const std::byte* bytes, const Meanwhile& meanwhile) = 0;
};

/// A unit that is ready to be computed.
struct UnitTask {
  UnitNumber number = 0;
  uint32_t unit = 0;
  /// The bytes as take_in left them, at the address where the device's kernels find them. nullptr
  /// for a unit without weights.
  const std::byte* bytes = nullptr;
  uint64_t taken_ns = 0;
};

/// The memory and the room for work that a device has to provide.
struct DeviceNeeds {
  Rings rings;
  uint64_t pinned_bytes = 0;
  bool has_copies = false;
  /// Size of the largest unit that goes through a ring of the device.
  uint64_t piece_bytes_max = 0;
  /// A unit is under way from its read's start to its kernel's end. Two units whose numbers differ
  /// by this or more are never under way together.
  size_t units_under_way_max = 0;
};

/// Is told when copies and kernels are over. Any thread may call.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  /// Called for each copy that was started and not cancelled, in order.
  virtual void on_copied(UnitNumber unit, Result<TimeSpan> when) = 0;
  /// Called for each kernel that `compute` began, in order, and never before the call for its
  /// unit's copy.
  virtual void on_computed(UnitNumber unit, Result<TimeSpan> when) = 0;
};

class Device {
 public:
  /// Waits for all work that is under way.
  virtual ~Device() = default;

  /// Takes all memory. To be called once, before any other function; `listener` outlives the
  /// device.
  virtual Status open(const DeviceNeeds& needs, DeviceListener& listener) = 0;

  /// The host's address of a place that units are read into.
  virtual std::byte* host_address(const Place& place) const = 0;
  /// The address where kernels find the bytes of a place. nullptr for Place::Memory::none.
  virtual const std::byte* kernel_address(const Place& place) const = 0;

  /// Called on the driver's thread. Copies are made one after the other.
  virtual void start_copy(UnitNumber unit, const Place& from, const Place& to,
                          uint64_t length_bytes) = 0;
  /// Cancels the copies that have not begun, and returns how many. They are not reported.
  virtual uint32_t cancel_copies() = 0;

  /// Called on the thread that computes. Has `work` compute the unit, at once or when the device
  /// comes to it, and reports the end. After an error nothing is reported. `meanwhile` is passed to
  /// `work`.
  virtual Status compute(const UnitTask& task, UnitWork& work, const Meanwhile& meanwhile) = 0;
  /// Waits until all kernels that `compute` began are over and reported.
  virtual void drain() = 0;

  /// Called by the driver: the bytes at this place were used for the last time.
  virtual void let_go(const Place& place, uint64_t length_bytes) const = 0;
  /// Called by the driver while nothing is under way: units are numbered from 0 again.
  virtual void begin_anew() = 0;

  /// As ScheduleSettings::kernels_follow_copies.
  virtual bool kernels_follow_copies() const = 0;
};

/// A device that computes on the processor, in the process's own memory. It has a thread that makes
/// the copies. `arena`: the activations' memory, where overlaid units lie (WorkUnit::overlay); it
/// outlives the device.
std::unique_ptr<Device> make_host_device(std::span<std::byte> arena = {});

}  // namespace weightpager::pipeline
