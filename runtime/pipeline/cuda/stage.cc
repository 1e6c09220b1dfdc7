// See stage.h.
#include "runtime/pipeline/cuda/stage.h"

#include <utility>

#include "pager/base/thread.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::cuda {

using pipeline::TimeSpan;
using pipeline::UnitNumber;
using telemetry::monotonic_ns;

Status Stage::open(const char* thread_name, cudaStream_t stream, size_t units_under_way_max,
                   Report report) {
  stream_ = stream;
  report_ = std::move(report);
  events_.resize(units_under_way_max);
  for (UnitEvents& it : events_) {
    auto start = make_event(cudaEventDefault);
    if (!start) return forward_error(std::move(start));
    it.start = std::move(*start);
    auto finish = make_event(cudaEventBlockingSync);
    if (!finish) return forward_error(std::move(finish));
    it.finish = std::move(*finish);
  }
  auto base = make_event(cudaEventDefault);
  if (!base) return forward_error(std::move(base));
  base_ = std::move(*base);
  begin_anew();
  auto thread = start_thread(thread_name, [this] { report_units(); });
  if (!thread) return forward_error(std::move(thread));
  thread_ = std::move(*thread);
  return {};
}

Stage::~Stage() {
  if (!thread_.joinable()) return;
  line_.put({.kind = Item::Kind::stop});
  thread_.join();
}

Status Stage::begin(UnitNumber unit) {
  events_[unit % events_.size()].enqueued_ns = monotonic_ns();
  return check(cudaEventRecord(at(unit).start.get(), stream_), "the GPU takes no work");
}

Status Stage::end(UnitNumber unit) {
  Status recorded = check(cudaEventRecord(at(unit).finish.get(), stream_), "the GPU takes no work");
  if (!recorded) return recorded;
  put(unit, {});
  return {};
}

void Stage::fail(UnitNumber unit, Error error) { put(unit, tl::make_unexpected(std::move(error))); }

void Stage::put(UnitNumber unit, Status enqueued) {
  {
    const MutexLock lock(mutex_);
    unreported_.push_back(unit);
  }
  line_.put({.kind = Item::Kind::unit,
             .unit = unit,
             .enqueued_ns = at(unit).enqueued_ns,
             .enqueued = std::move(enqueued)});
}

void Stage::wait_until_reported(UnitNumber unit) {
  const MutexLock lock(mutex_);
  while (!unreported_.empty() && unreported_.front() <= unit) is_reported_.wait(mutex_);
}

void Stage::drain() {
  const MutexLock lock(mutex_);
  while (!unreported_.empty()) is_reported_.wait(mutex_);
}

void Stage::begin_anew() {
  // Errors are not checked here: if the GPU has failed, the next unit reports the failure.
  cudaEventRecord(base_.get(), stream_);
  cudaEventSynchronize(base_.get());
  clock_.begin(monotonic_ns());
  last_finish_ = base_.get();
}

// ---- The stage's thread ----

void Stage::report_units() {
  for (;;) {
    const Item item = line_.take();
    if (item.kind == Item::Kind::stop) return;
    report_(item.unit, wait_for(item));
    {
      const MutexLock lock(mutex_);
      unreported_.pop_front();
    }
    is_reported_.wake_all();
  }
}

Result<TimeSpan> Stage::wait_for(const Item& item) {
  if (!item.enqueued) return tl::make_unexpected(item.enqueued.error());
  const UnitEvents& events = at(item.unit);
  Status over = check(cudaEventSynchronize(events.finish.get()), "the GPU failed at a layer");
  if (!over) return forward_error(std::move(over));
  const uint64_t seen_ns = monotonic_ns();
  float gap_ms = 0;
  float duration_ms = 0;
  cudaError_t error = cudaEventElapsedTime(&gap_ms, last_finish_, events.start.get());
  if (error == cudaSuccess) {
    error = cudaEventElapsedTime(&duration_ms, events.start.get(), events.finish.get());
  }
  Status timed = check(error, "the GPU does not say how long a layer took");
  if (!timed) return forward_error(std::move(timed));
  last_finish_ = events.finish.get();
  return clock_.place(gap_ms, duration_ms, item.enqueued_ns, seen_ns);
}

}  // namespace weightpager::cuda
