// When each part of a network is read, copied and computed: the pipelines of Demand Layering (Ji et
// al., RTSS 2022).
//
// Problem. A network runs in a window smaller than its weights. While one unit (a layer, or a tile
// of a layer) computes, later ones are read, and on devices with memory of their own also copied.
// What may start when follows from rules that are easy to get wrong a little: a buffer that is
// freed at the wrong event still works on most machines on most days.
//
// Idea. A pure state machine that only counts: which unit comes next in each stage, and how many
// bytes of each ring are taken. Events in (a read, copy, kernel finished), actions out (start one).
// The executor, the simulator (simulate.h) and the tests drive the same object, and the equations
// (timeline.h) say what it must amount to.
//
// Rings are mirrored (the same memory mapped twice in a row): a unit lies at the sum of all bytes
// before it, modulo the ring's size, and is contiguous wherever that is. Space is taken in the
// order of units and freed in that order, so two counters describe a ring.
//
// No I/O, no clock, no threads; allocates only in `make`. Cost: O(1) per event and unit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::pipeline {

enum class Pipeline {
  /// All units are pinned: each is read once, ever. Nothing to read after the first pass.
  preload,
  /// Read, copy, kernel of one unit, then of the next. Nothing overlaps.
  sequential,
  /// Cycles in lock step: kernel of unit u − 2, copy of u − 1, read of u; the next cycle starts
  /// when
  /// all three are finished. Each ring holds two consecutive units.
  synchronous,
  /// Each stage at its own pace, through a ring on the host and a ring on the device.
  asynchronous,
  /// No copies: kernels use the weights where they were read to, in the one ring.
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

/// What is read, copied and computed as one: a layer, or a tile of it. The units of one layer
/// follow each other.
struct WorkUnit {
  /// Rounded to what the reader needs (4 KiB). 0: no weights; never read, never copied.
  uint64_t size_bytes = 0;
  /// Read (and copied) in the first pass only, to memory of its own outside the rings.
  bool is_pinned = false;
  /// `two_stage`, not pinned: the unit is read there in each pass, instead of into the ring.
  std::optional<Overlay> overlay = {};
};

/// Sizes of the rings. Capacities shall be multiples of what the sizes of units are multiples of.
struct Rings {
  /// Where reads go. The only ring of `two_stage`. For `preload`: 0 if reads go straight to the
  /// pinned memory; otherwise they go through this ring, and copies take them from there.
  uint64_t host_bytes = 0;
  /// Where copies go: `sequential`, `synchronous` and `asynchronous`.
  uint64_t device_bytes = 0;

  uint64_t bytes() const { return host_bytes + device_bytes; }
  bool operator==(const Rings&) const = default;
};

/// The smallest rings with which `Schedule::make` accepts these units.
Rings smallest_rings(Pipeline pipeline, std::span<const WorkUnit> units);

/// Counts on across inferences: number = inference · units + index.
using UnitNumber = uint64_t;

/// Where a unit's bytes are.
struct Place {
  enum class Memory {
    none,         // it has no bytes
    host_ring,    // offset < Rings::host_bytes, and the unit may reach over the end into the mirror
    device_ring,  // the same with Rings::device_bytes
    pinned,       // memory of `pinned_bytes()`; where there are copies it is the device's
    arena,        // the activations' memory (Overlay)
  };
  Memory memory = Memory::none;
  uint64_t offset_bytes = 0;

  bool operator==(const Place&) const = default;
};

/// What the driver shall do now.
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

/// What the driver need not hear of for a while, because it could start nothing then, or little.
/// Being woken takes some 100 µs from the processors that compute: the driver keeps one from a
/// thread that the others wait for.
struct Rest {
  /// The first kernel whose end it must hear of; earlier ones it may learn of together with that.
  UnitNumber until = 0;
  /// The same for reads: kernels in line have enough to do until then, if they end one by one.
  bool ignores_reads = false;
};

struct ScheduleSettings {
  Pipeline pipeline = Pipeline::two_stage;
  Rings rings;
  /// `asynchronous` and `two_stage`: the first units of the next inference are read (and copied) as
  /// soon as there is space for them, before `start_inference` asks for it. The other pipelines are
  /// drained between inferences by what they are, except that `preload` always reads before.
  bool reads_across_inferences = false;
  /// The device holds a kernel back until its copy is finished, as a CUDA stream does that waits
  /// for an event. Then the kernel is started right behind its copy, and nobody is asked between
  /// them.
  bool kernels_follow_copies = false;
};

/// The driver's contract:
///  - After each call of `start_inference` or `on_…`, and once at the beginning, call `next` until
///  it
///    returns `none`, and start each action.
///  - Reads may be worked off several at once and finish in any order. Copies are worked off one
///    after the other in the order in which they were started (as by a CUDA stream), and so are
///    kernels; each may be started while earlier ones are still waiting in line.
///  - Each `on_…_finished` comes once per action of that kind, after the work is done and visible
///  to
///    the stage that follows. A finished copy frees space on the host, a finished kernel on the
///    device (in `two_stage`: on the host): the bytes may be overwritten from the next `next` on.
///  - After a failed read, copy or kernel: call nothing more, wait for what is in flight, make a
///  new
///    schedule. What was pinned is then read again.
/// Not thread-safe; one thread drives it.
class Schedule {
 public:
  /// Fails if there are no units, or if a ring is smaller than `smallest_rings`; the error says so.
  /// Only `two_stage` has overlaid units. They are not pinned, and `after_unit` is an earlier unit.
  static Result<Schedule> make(std::vector<WorkUnit> units, const ScheduleSettings& settings);

  /// The next inference's kernels may start. Only if `may_start_inference`.
  void start_inference();
  /// All that were started are finished. In `asynchronous` and `two_stage` also while the last one
  /// is not, if the others are: units of two inferences may be at work.
  bool may_start_inference() const;
  /// All kernels of the inferences that were started are finished.
  bool is_inference_finished() const { return kernels_finished_ == end_of_started(); }
  uint64_t inferences_finished() const { return kernels_finished_ / units_.size(); }

  /// As in ScheduleSettings, from now on. Reads that were started go on.
  void set_reads_across_inferences(bool reads_across);

  /// `two_stage`: of the units before `end` no further kernels start: they leave the ring without
  /// one once they are read and those before them have left. What of them was not started to be
  /// read is not read; pinned ones are all the same, in the first pass, for those that follow.
  void let_go(UnitNumber end);

  void on_read_finished(UnitNumber unit);
  void on_copy_finished(UnitNumber unit);
  void on_kernel_finished(UnitNumber unit);

  ScheduleAction next();

  /// From the present state on: an event that is told makes it another one. Where kernels compute
  /// from what was read, space is made use of some 1 MiB at a time, half of a smaller ring.
  /// Units that are let go may wait for any kernel.
  Rest rest() const;

  uint32_t units() const { return static_cast<uint32_t>(units_.size()); }
  /// The place of a unit in the order that `make` was given.
  uint32_t index(UnitNumber unit) const { return static_cast<uint32_t>(unit % units_.size()); }
  const Rings& rings() const { return settings_.rings; }
  /// Whether there will be copies, also if only of what is pinned.
  bool has_copies() const { return has_copies_; }
  /// Size of the pinned memory. The window is this and the rings.
  uint64_t pinned_bytes() const { return pinned_bytes_; }

 private:
  // A mirrored ring as two running sums. `begin` is the sum before a unit.
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

  // What is known of a unit between its read and the end of its kernel: its space in the rings
  // (`host_bytes` from `host_begin` on), and how far it has come.
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

  // By number modulo 2 · units: end_of_reads lets no more be between their read and their kernel's
  // end.
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
