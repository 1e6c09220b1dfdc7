// Runs a schedule with a real disk and real computation.
//
// Problem. The schedule says what may start when. The executor has to start it: it keeps reads in
// flight while a layer computes for tens of milliseconds, copies beside both, and never lets a busy
// thread wait for an idle one.
//
// Idea. One thread, the driver, owns the schedule and the reader. It sleeps in one place, until a
// read is finished or another thread sends a message. The device (device.h), a processor or a GPU,
// makes the copies and runs the kernels. The thread that calls `run` computes the kernels, or
// starts them on a GPU. That is the engine's own thread, so its OpenMP threads stay warm. It gets
// its work through a short queue, several units ahead, so it does not wait for the driver between
// two kernels.
//
// Where processors compute and nothing is copied, the thread that calls `run` may itself be the
// driver, at the beginning of each kernel (Driver::caller). Space for reads comes only when a
// kernel ends, so that is soon enough, and no thread need be woken. A wake-up costs much: two
// threads that multiply matrices 83 µs, and two that only count 25 µs (bench/wake_cost, 2
// processors of a virtual machine, 2026-11-24), and a pass over YOLOv4 in 9 MiB woke its driver 230
// times. While the caller drives, the other threads of the kernel begin without it (Meanwhile).
//
// Start reading at `DrivenExecutor::drive`.
//
// A failure ends the inference; there is never half a result. `run` returns the error when nothing
// is in flight any more, and the next `run` begins anew. Cost with a driver's thread: two thread
// switches for each unit that is not ready ahead of time; no thread waits for other switches. Cost
// without one: one of the threads that compute spends time on starting reads and taking them in.
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

/// A unit's bytes in its file. Offset and length are multiples of 4 KiB, as direct reads require;
/// only the file may end earlier.
struct UnitBytes {
  uint64_t offset_bytes = 0;
  /// The size that the schedule counts. 0: the unit has no weights.
  uint64_t length_bytes = 0;
  /// A read that brings fewer bytes than this is an error. Less than `length_bytes` where the file
  /// ends within the unit.
  uint64_t needed_bytes = 0;
  bool is_pinned = false;
  /// As in WorkUnit.
  std::optional<Overlay> overlay = {};
};

/// The units as a schedule needs them. Each has a whole number of pages and less than 4 GiB.
std::vector<WorkUnit> work_units(std::span<const UnitBytes> units);

enum class Driver {
  /// A thread of the executor. It goes on reading whatever the caller does.
  own_thread,
  /// The thread that calls `run`; inferences may then be computed with `run` only. For pipelines
  /// without copies, on a device that has computed a unit when `compute` returns. A read that
  /// finishes while a kernel computes is noticed, and counts as finished, when the next kernel
  /// begins.
  caller,
};

struct ExecutorOptions {
  ScheduleSettings schedule;
  Driver driver = Driver::own_thread;
  /// The file of the weights, opened for direct reads where the filesystem supports them. The
  /// caller closes it, after the executor is gone.
  int fd = -1;
  /// The file's identity when it was opened. Once the file is changed, every pass that reads fails.
  /// Nothing: changes are not looked for.
  std::optional<io::FileIdentity> file;
  /// For messages.
  std::string file_name;
  /// As io::device_limits says.
  uint32_t device_read_bytes = 1u << 20;
  /// The reader to use, instead of io_uring or, where that is refused, pread.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
  /// Driver::caller: more work for the caller to do during each kernel (Meanwhile).
  Meanwhile beside_kernels;
};

class Executor {
 public:
  /// Takes the memory for rings and pins, and starts the threads. `work` outlives it.
  static Result<std::unique_ptr<Executor>> make(
      std::vector<UnitBytes> units, const ExecutorOptions& options, UnitWork& work,
      std::unique_ptr<Device> device = make_host_device());
  virtual ~Executor() = default;

  /// Runs one inference: `start`, then `work.compute` for every unit. Any thread may call, one at a
  /// time.
  virtual Status run() = 0;

  // The same without callbacks, on a processor. After `start`, call `take` and `finish` for each
  // unit until `take` says that the inference is over. The numbers of units go on across
  // inferences; after an error they begin at 0 again.

  /// Starts an inference. May be called before the last one is over: pipelines that cannot compute
  /// two at once begin the new one after it.
  virtual void start() = 0;
  /// Waits until the next unit's bytes are there. Further units may be taken before the first is
  /// finished, but `take` may then wait for space that only `finish` gives. Returns nothing when an
  /// inference is over; units of the next inference may come before that. Returns an error when an
  /// inference has failed and no read is in flight any more; the error ends all inferences that
  /// were started.
  virtual Result<std::optional<UnitTask>> take() = 0;
  /// Units are finished in the order in which they were taken. Their bytes stay until then, also
  /// after a failure. After a failure all units that were taken must be finished before the next
  /// `start`.
  virtual void finish(const UnitTask& task, Status computed) = 0;
  /// As Schedule::let_go. `take` may still return units before `end` that were ready earlier.
  virtual void let_go(UnitNumber end) = 0;
  /// As Schedule::set_reads_across_inferences.
  virtual void set_reads_across_inferences(bool reads_across) = 0;

  /// When each read, copy and kernel of the last inference that ended without an error began and
  /// finished, on CLOCK_MONOTONIC.
  virtual const Timeline& times() const = 0;
  /// Memory for weights: rings and pins.
  virtual uint64_t window_bytes() const = 0;
  /// Bytes read from the file since the executor was made.
  virtual uint64_t read_bytes() const = 0;
  /// The processor time that it took to start these reads and take them in.
  virtual uint64_t reading_processor_ns() const = 0;
  /// "io_uring" or "pread".
  virtual const char* reader_name() const = 0;
};

}  // namespace weightpager::pipeline
