// When each part of a network is read, copied and computed: the pipelines of Demand Layering (Ji et
// al., RTSS 2022).
//
// Problem. A network runs in a window smaller than its weights. While one unit (a layer, or a tile
// of a layer) computes, later ones are read, and on devices with memory of their own also copied.
// The rules that say when each may start are easy to get slightly wrong: a buffer that is freed at
// the wrong event still works on most machines on most days.
//
// Idea. A pure state machine that only counts: which unit comes next in each stage, and how many
// bytes of each ring are taken. Events go in (a read, copy or kernel is finished), actions come out
// (start one). The executor, the simulator (simulate.h) and the tests drive the same object, and
// the equations (timeline.h) give the times that must result.
//
// Rings are mirrored (the same memory mapped twice in a row): a unit begins at the sum of all bytes
// before it, modulo the ring's size, and is contiguous wherever it lies. Space is taken in the
// order of units and freed in that order, so two counters describe a ring.
//
// No I/O, no clock, no threads. Memory is allocated only in `make`. Cost: O(1) per event and unit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::pipeline {

enum class Pipeline {
  /// All units are pinned: each is read only once, in the first pass.
  preload,
  /// Read, copy, kernel of one unit, then of the next. Nothing overlaps.
  sequential,
  /// Cycles in lock step: the kernel of unit u − 2, the copy of u − 1 and the read of u. The next
  /// cycle starts when all three are finished. Each ring holds two consecutive units.
  synchronous,
  /// Each stage goes at its own pace, through a ring on the host and a ring on the device.
  asynchronous,
  /// No copies: kernels use the weights in the ring that reads put them into. There is only this
  /// ring.
  two_stage,
};

/// "preload", "two-stage", …: for messages.
std::string_view name(Pipeline pipeline);

/// Where a unit lies in the arena of the activations, which need these bytes at other times of each
/// inference (arena_overlay.h).
struct Overlay {
  uint64_t offset_bytes = 0;
  /// The bytes are free when the kernel of this unit, earlier in the same inference, has ended.
  /// Their next user begins after the overlaid unit's own kernel.
  uint32_t after_unit = 0;

  bool operator==(const Overlay&) const = default;
};

/// A part of the network that is read, copied and computed as one: a layer, or a tile of it. The
/// units of one layer follow each other.
struct WorkUnit {
  /// A multiple of what the reader needs (4 KiB). 0: the unit has no weights and is never read or
  /// copied.
  uint64_t size_bytes = 0;
  /// Read (and copied) in the first pass only, to memory of its own outside the rings.
  bool is_pinned = false;
  /// Only for `two_stage`, and only if the unit is not pinned: the unit is read to this place in
  /// each pass, instead of into the ring.
  std::optional<Overlay> overlay = {};
};

/// Sizes of the rings. They must be multiples of the same step as the units' sizes.
struct Rings {
  /// The ring that reads go into. The only ring of `two_stage`. For `preload`: 0 if reads go
  /// straight to the pinned memory; otherwise reads go into this ring, and copies go from it to the
  /// pinned memory.
  uint64_t host_bytes = 0;
  /// The ring that copies go into: `sequential`, `synchronous` and `asynchronous`.
  uint64_t device_bytes = 0;

  uint64_t bytes() const { return host_bytes + device_bytes; }
  bool operator==(const Rings&) const = default;
};

/// The smallest rings with which `Schedule::make` accepts these units.
Rings smallest_rings(Pipeline pipeline, std::span<const WorkUnit> units);

/// The numbers go on across inferences: number = inference · units + index.
using UnitNumber = uint64_t;

/// Where a unit's bytes are.
struct Place {
  enum class Memory {
    none,         // the unit has no bytes
    host_ring,    // offset < Rings::host_bytes, and the unit may reach over the end into the mirror
    device_ring,  // the same with Rings::device_bytes
    pinned,       // memory of `pinned_bytes()`; where there are copies it is the device's
    arena,        // the activations' memory (Overlay)
  };
  Memory memory = Memory::none;
  uint64_t offset_bytes = 0;

  bool operator==(const Place&) const = default;
};

/// The driver's next task.
struct ScheduleAction {
  enum class Kind {
    none,    // nothing until the next event
    read,    // the unit's bytes from the file to `to`
    copy,    // from `from` to `to`
    kernel,  // compute the unit with the weights at `from`
  };
  Kind kind = Kind::none;
  UnitNumber unit = 0;
  Place from;
  Place to;
};

/// Events that need not wake the driver for a while, because it could start little or nothing after
/// them. Each wake-up takes some 100 µs from the processors that compute: the driver takes the
/// processor of one thread, and the other threads wait for that thread.
struct Rest {
  /// The first kernel whose end must wake the driver. It may learn of earlier ends together with
  /// that one.
  UnitNumber until = 0;
  /// Finished reads need not wake the driver before that either: if kernels end one by one, enough
  /// of them are in line until then.
  bool ignores_reads = false;
};

struct ScheduleSettings {
  Pipeline pipeline = Pipeline::two_stage;
  Rings rings;
  /// `asynchronous` and `two_stage`: the first units of the next inference are read (and copied) as
  /// soon as there is space for them, before `start_inference` asks for it. Of the other pipelines,
  /// `preload` always reads before the start; `sequential` and `synchronous` are always empty
  /// between inferences.
  bool reads_across_inferences = false;
  /// The device itself holds a kernel back until its copy is finished, like a CUDA stream that
  /// waits for an event. Then the schedule starts the kernel right behind its copy, without the
  /// event that the copy is finished.
  bool kernels_follow_copies = false;
  /// `asynchronous` and `two_stage`: the most units between the start of their read and the end of
  /// their kernel, however small they are. 0: as many as the rings hold. SwapNet's m, which is 2
  /// there.
  uint32_t units_under_way_max = 0;
};

/// The driver's contract:
///  - After each call of `start_inference` or `on_…`, and once at the beginning, call `next` until
///    it returns `none`, and start each action that it returns.
///  - Several reads may be in progress at once, and they may finish in any order. Copies are made
///    one after the other, in the order in which they were started (as by a CUDA stream), and so
///    are kernels. Each may be started while earlier ones still wait in line.
///  - Call `on_…_finished` once per action of that kind, after the work is done and visible to the
///    next stage. A finished copy frees space on the host, a finished kernel on the device (in
///    `two_stage`: on the host): the bytes may be overwritten from the next `next` on.
///  - After a failed read, copy or kernel: call nothing more, wait for all work in flight, and make
///    a new schedule. It reads pinned units again.
/// Not thread-safe; one thread drives it.
class Schedule {
 public:
  /// Fails if there are no units, or if a ring is smaller than `smallest_rings`; the error says so.
  /// Only `two_stage` has overlaid units. They are not pinned, and `after_unit` is an earlier unit.
  static Result<Schedule> make(std::vector<WorkUnit> units, const ScheduleSettings& settings);

  /// Lets the next inference's kernels start. Only to be called if `may_start_inference`.
  void start_inference();
  /// Whether all inferences that were started are finished. In `asynchronous` and `two_stage` the
  /// last one need not be finished: kernels of two inferences may be in line.
  bool may_start_inference() const;
  /// Whether all kernels of the inferences that were started are finished.
  bool is_inference_finished() const { return kernels_finished_ == end_of_started(); }
  uint64_t inferences_finished() const { return kernels_finished_ / units_.size(); }

  /// Changes the setting (ScheduleSettings) from now on. Reads that were started go on.
  void set_reads_across_inferences(bool reads_across);

  /// For `two_stage`: no further kernels start of units before `end`. These units leave the ring
  /// without a kernel, once they are read and the units before them have left. Those whose read was
  /// not started are not read, except for pinned ones in the first pass, which later passes need.
  void let_go(UnitNumber end);

  void on_read_finished(UnitNumber unit);
  void on_copy_finished(UnitNumber unit);
  void on_kernel_finished(UnitNumber unit);

  ScheduleAction next();

  /// Valid until the next event is told. Without copies, the driver is woken only when about 1 MiB
  /// of the ring, or half of a smaller ring, is free. Does not consider units that are let go: any
  /// kernel's end may let them leave the ring.
  Rest rest() const;

  uint32_t units() const { return static_cast<uint32_t>(units_.size()); }
  /// The place of a unit in the order that `make` was given.
  uint32_t index(UnitNumber unit) const { return static_cast<uint32_t>(unit % units_.size()); }
  const Rings& rings() const { return settings_.rings; }
  /// Whether there will be copies, even if only of pinned units.
  bool has_copies() const { return has_copies_; }
  /// Size of the pinned memory. The window consists of it and the rings.
  uint64_t pinned_bytes() const { return pinned_bytes_; }

 private:
  // A mirrored ring as two running sums. `begin` is the sum of the bytes before a unit.
  struct Ring {
    uint64_t capacity_bytes = 0;
    uint64_t taken_bytes = 0;
    uint64_t freed_bytes = 0;

    bool has_room(uint64_t bytes) const {
      return taken_bytes - freed_bytes + bytes <= capacity_bytes;
    }
    uint64_t take(uint64_t bytes);
    void free(uint64_t begin, uint64_t bytes);
  };

  // The state of a unit between its read and the end of its kernel: how far it has come, and its
  // space in the rings (`host_bytes` from `host_begin` on).
  struct Progress {
    bool is_read = false;
    bool is_copied = false;
    bool is_let_go = false;
    uint64_t host_begin = 0;
    uint64_t host_bytes = 0;
    uint64_t device_begin = 0;
  };

  Schedule(std::vector<WorkUnit> units, const ScheduleSettings& settings);

  const WorkUnit& at(UnitNumber unit) const { return units_[index(unit)]; }
  Progress& progress(UnitNumber unit) { return progress_[unit % progress_.size()]; }
  const Progress& progress(UnitNumber unit) const { return progress_[unit % progress_.size()]; }
  UnitNumber end_of_started() const { return inferences_started_ * units_.size(); }
  UnitNumber end_of_reads() const;

  bool is_skipped(UnitNumber unit) const;
  bool is_moved(UnitNumber unit) const;
  uint64_t host_ring_bytes(UnitNumber unit) const;
  uint64_t device_ring_bytes(UnitNumber unit) const;
  UnitNumber overlay_is_free_after(UnitNumber unit) const;
  bool has_room_for(UnitNumber unit) const;
  Place host_place(UnitNumber unit) const;
  Place kernel_place(UnitNumber unit) const;

  bool is_read_due() const;
  bool is_copy_due() const;
  bool is_kernel_due() const;
  ScheduleAction take_read();
  ScheduleAction take_copy();
  ScheduleAction take_kernel();
  void let_go_of_kernel();
  void leave_in_order();
  bool begin_next_cycle();
  bool ends_inference(UnitNumber unit) const { return index(unit) + 1 == units_.size(); }

  std::vector<WorkUnit> units_;
  std::vector<uint64_t> pinned_offsets_bytes_;  // by index
  ScheduleSettings settings_;
  bool has_copies_ = false;
  bool reads_ahead_ = false;
  uint64_t pinned_bytes_ = 0;

  // By number modulo 2 · units: end_of_reads lets no more units be between their read and their
  // kernel's end.
  std::vector<Progress> progress_;
  Ring host_ring_;
  Ring device_ring_;
  uint64_t inferences_started_ = 0;
  UnitNumber next_read_ = 0;
  UnitNumber next_copy_ = 0;
  UnitNumber next_kernel_ = 0;
  UnitNumber kernels_finished_ = 0;
  UnitNumber let_go_end_ = 0;
  UnitNumber cycle_ = 0;  // synchronous: the unit whose read belongs to this cycle
  uint64_t in_flight_ = 0;
};

}  // namespace weightpager::pipeline
