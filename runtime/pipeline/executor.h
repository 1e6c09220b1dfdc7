// Runs a schedule with a real disk and real computation.
//
// Problem. The schedule says what may start when. Somebody has to start it: keep reads in flight
// while a layer computes for tens of milliseconds, copy beside both, and never let a busy thread
// wait for an idle one.
//
// Idea. One thread, the driver, owns the schedule and the reader; it sleeps in one place, for a
// finished read or for a message from another thread. Copies and kernels are the device's
// (device.h), a processor's or a GPU's. Kernels are computed, or on a GPU started, by the thread
// that calls `run`, which is the engine's own (its OpenMP threads stay warm). It gets its work
// through a short queue, several units ahead, so that between two kernels there is no wait for the
// driver.
//
// Where processors compute and nothing is copied, who calls `run` may be the driver himself, at the
// beginning of a kernel (Driver::caller): space for reads comes only when one ends, and nobody need
// be woken then. A thread that is woken beside two that multiply matrices costs these 83 µs, 25
// where they only count (bench/wake_cost, 2 processors of a virtual machine, 2026-11-24), and a
// pass over YOLOv4 in 9 MiB woke its driver 230 times. The threads that compute with it begin
// without it (Meanwhile).
//
// Start reading at `DrivenExecutor::drive`.
//
// A failure ends the inference, never gives half of one: `run` returns the error when nothing is in
// flight any more, and the next `run` begins anew. Cost: with a thread for a driver two thread
// switches for each unit that is not ready ahead of time, else none that anybody waits for; without
// one, what starting reads and taking them in takes of one of the threads that compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/file_identity.h"
#include "pager/io/reader.h"
#include "runtime/pipeline/device.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

/// A unit's bytes in its file: everything in multiples of 4 KiB, as direct reads want it, but the
/// end of the file.
struct UnitBytes {
  uint64_t offset_bytes = 0;
  /// The size that the schedule counts. 0: the unit has no weights.
  uint64_t length_bytes = 0;
  /// Fewer than `length_bytes` where the file ends; what is missing otherwise is an error.
  uint64_t needed_bytes = 0;
  bool is_pinned = false;
  /// As in WorkUnit.
  std::optional<Overlay> overlay = {};
};

/// What a schedule has to know of them: whole pages, less than 4 GiB each.
std::vector<WorkUnit> work_units(std::span<const UnitBytes> units);

enum class Driver {
  /// A thread of the executor's own, which reads on whatever the caller does.
  own_thread,
  /// The thread that calls `run`, which is then all that may be called. For pipelines without
  /// copies, on a device that has computed a unit when `compute` returns. A read counts as finished
  /// when a kernel begins after it.
  caller,
};

struct ExecutorOptions {
  ScheduleSettings schedule;
  Driver driver = Driver::own_thread;
  /// Of the weights, opened for direct reads where the filesystem has them. Stays open.
  int fd = -1;
  /// What it was when it was opened: once it is changed, every pass that reads fails. Nothing:
  /// nobody looks.
  std::optional<io::FileIdentity> file;
  /// For messages.
  std::string file_name;
  /// As io::device_limits says.
  uint32_t device_read_bytes = 1u << 20;
  /// The reader to use, instead of io_uring or, where that is refused, pread.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
  /// Driver::caller: something more that is done during each kernel (Meanwhile).
  Meanwhile beside_kernels;
};

class Executor {
 public:
  /// Takes the memory for rings and pins, and starts the threads. `work` outlives it.
  static Result<std::unique_ptr<Executor>> make(
      std::vector<UnitBytes> units, const ExecutorOptions& options, UnitWork& work,
      std::unique_ptr<Device> device = make_host_device());
  virtual ~Executor() = default;

  /// One inference: `start`, then `work.compute` for every unit. Any thread, one at a time.
  virtual Status run() = 0;

  // The same for who would rather call than be called, on a processor. After `start`, `take` and
  // `finish` each unit until `take` says that the inference is over. Units are numbered on across
  // inferences; after an error they are numbered from 0 again.

  /// Also while the inference before is not over; in pipelines that cannot compute two at once it
  /// begins after that.
  virtual void start() = 0;
  /// Waits until the next unit's bytes are there. Further units may be taken before the first is
  /// finished; each may wait for space that only finishing gives. Nothing when an inference is
  /// over, which may come after units of the next one. An error when it has failed, and no read is
  /// in flight any more; that ends all that were started.
  virtual Result<std::optional<UnitTask>> take() = 0;
  /// In the order in which they were taken. The bytes stay until then, also after a failure, but
  /// then all that was taken must be finished before the next `start`.
  virtual void finish(const UnitTask& task, Status computed) = 0;
  /// As Schedule::let_go. `take` may still return units before `end`, that were ready earlier.
  virtual void let_go(UnitNumber end) = 0;
  /// As Schedule::set_reads_across_inferences.
  virtual void set_reads_across_inferences(bool reads_across) = 0;

  /// When everything in the last inference that ended well began and finished, on CLOCK_MONOTONIC.
  virtual const Timeline& times() const = 0;
  /// Memory for weights: rings and pins.
  virtual uint64_t window_bytes() const = 0;
  /// Read from the file since the beginning.
  virtual uint64_t read_bytes() const = 0;
  /// What starting these reads and taking them in took of a processor.
  virtual uint64_t reading_processor_ns() const = 0;
  /// "io_uring" or "pread".
  virtual const char* reader_name() const = 0;
};

}  // namespace weightpager::pipeline
