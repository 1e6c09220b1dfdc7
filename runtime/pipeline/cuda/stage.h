// A stage of the pipeline on a GPU (copies or kernels): a stream that works off units one by one,
// and a thread that learns when each is over.
//
// Problem. The executor's driver must learn that a copy or a kernel is over, to give its space to
// another unit. A thread that polls takes a processor from threads that have work.
// cudaLaunchHostFunc makes CUDA call back, but the stream stands still during the call. After a
// failure on the GPU no callback comes any more: the pipeline would wait for ever.
//
// Idea. Each unit's work lies between two events. The stage has a thread that sleeps until the
// second event has come (cudaEventBlockingSync: an interrupt wakes it), and then reports. That wait
// also returns the errors of all earlier work. The stream never waits for the thread.
//
// Cost: per unit an interrupt and a thread's wake-up, both beside the stream; two events per unit
// under way.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/result.h"
#include "runtime/pipeline/cuda/stage_clock.h"
#include "runtime/pipeline/cuda/status.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/work_line.h"

namespace weightpager::cuda {

class Stage {
 public:
  /// Called on the stage's thread, in the order of the calls of `end` and `fail`.
  using Report = std::function<void(pipeline::UnitNumber, Result<pipeline::TimeSpan>)>;

  /// `stream` outlives the stage. `units_under_way_max` as in DeviceNeeds.
  Status open(const char* thread_name, cudaStream_t stream, size_t units_under_way_max,
              Report report);
  /// Waits until every unit that was begun is over and reported.
  ~Stage();

  // One thread at a time; units in order.

  /// All work that is put into the stream from here to `end` belongs to the unit.
  Status begin(pipeline::UnitNumber unit);
  Status end(pipeline::UnitNumber unit);
  /// Instead of `end`, when the unit's work could not be put into the stream.
  void fail(pipeline::UnitNumber unit, Error error);

  // Any thread.

  /// The event comes when the unit's work is done. Nothing waits for it before the unit was begun.
  cudaEvent_t finish_event(pipeline::UnitNumber unit) const { return at(unit).finish.get(); }
  /// Waits until all units up to this one that were begun are reported.
  void wait_until_reported(pipeline::UnitNumber unit);
  /// Waits until all units that were begun are reported.
  void drain();
  /// To be called while nothing is under way: units are numbered from 0 again.
  void begin_anew();

 private:
  struct UnitEvents {
    CudaEvent start;
    CudaEvent finish;
    uint64_t enqueued_ns = 0;
  };
  struct Item {
    enum class Kind { unit, stop };
    Kind kind = Kind::stop;
    pipeline::UnitNumber unit = 0;
    uint64_t enqueued_ns = 0;
    Status enqueued;
  };

  const UnitEvents& at(pipeline::UnitNumber unit) const { return events_[unit % events_.size()]; }
  void put(pipeline::UnitNumber unit, Status enqueued);
  void report_units();
  Result<pipeline::TimeSpan> wait_for(const Item& item);

  cudaStream_t stream_ = nullptr;
  Report report_;
  std::vector<UnitEvents> events_;  // by number modulo its size
  CudaEvent base_;
  pipeline::WorkLine<Item> line_;
  Mutex mutex_;
  Condition is_reported_;
  std::deque<pipeline::UnitNumber> unreported_ WP_GUARDED_BY(mutex_);

  // Only the stage's thread uses these.
  StageClock clock_;
  cudaEvent_t last_finish_ = nullptr;
  std::thread thread_;
};

}  // namespace weightpager::cuda
