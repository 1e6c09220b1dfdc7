// See simulate.h.
#include "runtime/pipeline/simulate.h"

#include <deque>

#include "pager/base/assert.h"

namespace weightpager::pipeline {
namespace {

constexpr uint64_t never_ns = UINT64_MAX;

// Works off units one after the other, in the order in which they come.
class Engine {
 public:
  void enqueue(UnitNumber unit, uint64_t cost_ns, TimeSpan& span, uint64_t now_ns) {
    const uint64_t start_ns = std::max(now_ns, idle_from_ns_);
    idle_from_ns_ = start_ns + cost_ns;
    span = {start_ns, idle_from_ns_};
    line_.push_back({unit, idle_from_ns_});
  }

  uint64_t next_finish_ns() const { return line_.empty() ? never_ns : line_.front().finish_ns; }

  UnitNumber take_finished() {
    const UnitNumber unit = line_.front().unit;
    line_.pop_front();
    return unit;
  }

 private:
  struct InLine {
    UnitNumber unit;
    uint64_t finish_ns;
  };
  std::deque<InLine> line_;
  uint64_t idle_from_ns_ = 0;
};

class Simulation {
 public:
  Simulation(Schedule schedule, std::span<const UnitCosts> costs, uint32_t inferences)
      : schedule_(std::move(schedule)), costs_(costs) {
    // One more inference: its first units may be read, but its kernels never start.
    timelines_.resize(inferences + 1);
    for (Timeline& timeline : timelines_) timeline.units.resize(costs.size());
  }

  std::vector<Timeline> run(uint64_t idle_ns) {
    carry_out();
    for (size_t i = 0; i + 1 < timelines_.size(); ++i) {
      const uint64_t start_ns = now_ns_ + idle_ns;
      while (next_event_ns() < start_ns) process_event();
      now_ns_ = start_ns;
      timelines_[i].start_ns = now_ns_;
      schedule_.start_inference();
      carry_out();
      while (!schedule_.is_inference_finished()) process_event();
      timelines_[i].finish_ns = now_ns_;
    }
    timelines_.pop_back();
    return std::move(timelines_);
  }

 private:
  uint64_t next_event_ns() const {
    return std::min({disk_.next_finish_ns(), copier_.next_finish_ns(), computer_.next_finish_ns()});
  }

  void process_event() {
    now_ns_ = next_event_ns();
    WP_ASSERT(now_ns_ != never_ns);
    if (disk_.next_finish_ns() == now_ns_) {
      schedule_.on_read_finished(disk_.take_finished());
    } else if (copier_.next_finish_ns() == now_ns_) {
      schedule_.on_copy_finished(copier_.take_finished());
    } else {
      schedule_.on_kernel_finished(computer_.take_finished());
    }
    carry_out();
  }

  void carry_out() {
    for (;;) {
      const ScheduleAction action = schedule_.next();
      if (action.kind == ScheduleAction::Kind::none) return;
      const uint32_t index = schedule_.index(action.unit);
      UnitTimes& times = timelines_[action.unit / schedule_.units()].units[index];
      const UnitCosts& cost = costs_[index];
      if (action.kind == ScheduleAction::Kind::read) {
        disk_.enqueue(action.unit, cost.read_ns, times.read, now_ns_);
      } else if (action.kind == ScheduleAction::Kind::copy) {
        copier_.enqueue(action.unit, cost.copy_ns, times.copy, now_ns_);
      } else {
        computer_.enqueue(action.unit, cost.kernel_ns, times.kernel, now_ns_);
      }
    }
  }

  Schedule schedule_;
  std::span<const UnitCosts> costs_;
  std::vector<Timeline> timelines_;  // by inference
  Engine disk_;
  Engine copier_;
  Engine computer_;
  uint64_t now_ns_ = 0;
};

}  // namespace

std::vector<Timeline> simulate(Schedule schedule, std::span<const UnitCosts> costs,
                               const Arrivals& arrivals) {
  WP_ASSERT(costs.size() == schedule.units());
  return Simulation(std::move(schedule), costs, arrivals.inferences).run(arrivals.idle_ns);
}

}  // namespace weightpager::pipeline
