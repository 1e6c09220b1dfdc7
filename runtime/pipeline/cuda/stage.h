// Copies, or kernels: what a stream does unit by unit, and the thread that hears when each is over.
//
// Problem. The driver must learn that a copy or a kernel is over, to give its space away. A thread
// that asks again and again takes a processor from those who have work for it.
// cudaLaunchHostFunc has the driver call back, but holds the stream up meanwhile, and calls nobody
// any more once something has failed on the GPU: the pipeline would wait for ever.
//
// Idea. Each unit's work lies between two events. A thread of the stage's own sleeps until the
// second has come (cudaEventBlockingSync: on an interrupt), which also returns the errors of all
// work before, and reports. The stream never waits for that thread.
//
// Cost: an interrupt and a thread's wake-up per unit, beside the stream; two events per unit under
// way.
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
  /// On the stage's thread, in the order of `end` and `fail`.
  using Report = std::function<void(pipeline::UnitNumber, Result<pipeline::TimeSpan>)>;

  /// `stream` outlives the stage. `units_under_way_max` as in DeviceNeeds.
  Status open(const char* thread_name, cudaStream_t stream, size_t units_under_way_max,
              Report report);
  /// Everything that was begun is over and reported before the thread ends.
  ~Stage();

  // One thread at a time; units in order.

  /// What is put into the stream from here to `end` is the unit's.
  Status begin(pipeline::UnitNumber unit);
  Status end(pipeline::UnitNumber unit);
  /// Instead of `end`, when the unit's work could not be put into the stream.
  void fail(pipeline::UnitNumber unit, Error error);

  // Any thread.

  /// Comes when the unit's work is done; before it was begun at all it holds nobody up.
  cudaEvent_t finish_event(pipeline::UnitNumber unit) const { return at(unit).finish.get(); }
  /// Waits until everything up to this unit that was begun is reported.
  void wait_until_reported(pipeline::UnitNumber unit);
  /// The same of everything.
  void drain();
  /// Nothing is under way, and units are numbered from 0 again.
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

  // The thread's own.
  StageClock clock_;
  cudaEvent_t last_finish_ = nullptr;
  std::thread thread_;
};

}  // namespace weightpager::cuda
