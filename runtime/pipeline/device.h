// What a pipeline runs on: the memory that weights lie in, who copies into it and who computes from
// it.
//
// Problem. The rules of a pipeline are the same on a processor and on a GPU, and so are its reads.
// What differs is what a copy is, how long a kernel goes on after the call that began it, and how
// one learns that it is over.
//
// Idea. The executor (executor.h) keeps the schedule and the reader; a device has the memory and
// does copies and kernels, and reports each once when it is over. A processor computes inside of
// the call (host_device.cc); a GPU only takes the work in line there (cuda/cuda_device.h).
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

/// A GPU's driver maps memory in steps of this: its ring is mirrored if it is a multiple, otherwise
/// it takes as much more as the largest piece has.
inline constexpr uint64_t gpu_ring_step_bytes = 2u << 20;

/// What the thread that computes has to do besides: where others compute with it, they may as well
/// begin without it. May be empty.
using Meanwhile = std::function<void()>;

/// What the units are, to whoever runs them.
class UnitWork {
 public:
  virtual ~UnitWork() = default;
  /// The unit's bytes have arrived. Checks them and makes them what `compute` expects, in place.
  /// On the driver's thread, once per read, before anybody else sees them. Units of one inference
  /// come in order.
  virtual Status take_in(uint32_t unit, std::span<std::byte> bytes) = 0;
  /// `bytes` as in UnitTask. On the thread that called `Executor::run`, in order. On a GPU: starts
  /// the kernels, on the stream that the device was made with. Unless it fails, it calls
  /// `meanwhile` once at any time before it returns, on that thread; that may call `take_in`, of
  /// other units, and leaves this one's bytes alone.
  virtual Status compute(uint32_t unit, const std::byte* bytes, const Meanwhile& meanwhile) = 0;
};

/// A unit that is ready to be computed.
struct UnitTask {
  UnitNumber number = 0;
  uint32_t unit = 0;
  /// As take_in left them, wherever they lie now, as an address of the device's; nullptr for a unit
  /// without weights.
  const std::byte* bytes = nullptr;
  uint64_t taken_ns = 0;
};

/// What a device has to provide.
struct DeviceNeeds {
  Rings rings;
  uint64_t pinned_bytes = 0;
  bool has_copies = false;
  /// Of the largest unit that goes through a ring of the device's own.
  uint64_t piece_bytes_max = 0;
  /// Between the first read's start and the last kernel's end: units whose numbers differ by this
  /// or more are never under way together.
  size_t units_under_way_max = 0;
};

/// Who wants to know what is over. Any thread may call.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  /// Each copy that was started, but for those that were cancelled, in order.
  virtual void on_copied(UnitNumber unit, Result<TimeSpan> when) = 0;
  /// Each kernel that `compute` began, in order, and never before its unit's copy.
  virtual void on_computed(UnitNumber unit, Result<TimeSpan> when) = 0;
};

class Device {
 public:
  /// Waits for what is under way.
  virtual ~Device() = default;

  /// Takes all memory. Called once, before everything else; `listener` outlives the device.
  virtual Status open(const DeviceNeeds& needs, DeviceListener& listener) = 0;

  /// Where the reader puts a unit that is read to this place.
  virtual std::byte* host_address(const Place& place) const = 0;
  /// Where kernels find it. nullptr for Place::Memory::none.
  virtual const std::byte* kernel_address(const Place& place) const = 0;

  /// On the driver's thread: copies are done one after the other.
  virtual void start_copy(UnitNumber unit, const Place& from, const Place& to,
                          uint64_t length_bytes) = 0;
  /// Forgets copies that have not begun, and says how many; they are not reported.
  virtual uint32_t cancel_copies() = 0;

  /// On the thread that computes: has `work` compute the unit, at once or as soon as the device
  /// comes to it. Reported when it is over; after an error it is not. `meanwhile` is for `work`.
  virtual Status compute(const UnitTask& task, UnitWork& work, const Meanwhile& meanwhile) = 0;
  /// Waits until everything that `compute` began is over and reported.
  virtual void drain() = 0;

  /// The driver: the bytes there were used for the last time.
  virtual void let_go(const Place& place, uint64_t length_bytes) const = 0;
  /// The driver: nothing is under way, and units are numbered from 0 again.
  virtual void begin_anew() = 0;

  /// As ScheduleSettings::kernels_follow_copies.
  virtual bool kernels_follow_copies() const = 0;
};

/// The process's own memory. A thread of its own makes the copies. `arena`: the activations'
/// memory, where overlaid units lie (WorkUnit::overlay); it outlives the device.
std::unique_ptr<Device> make_host_device(std::span<std::byte> arena = {});

}  // namespace weightpager::pipeline
