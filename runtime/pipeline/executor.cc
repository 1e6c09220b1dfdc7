#include "runtime/pipeline/executor.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/inbox.h"
#include "runtime/pipeline/inferences_under_way.h"
#include "runtime/pipeline/unit_reads.h"
#include "runtime/pipeline/work_line.h"

namespace weightpager::pipeline {
namespace {

using telemetry::monotonic_ns;

DriverMessage message_of_kernel(UnitNumber unit, Result<TimeSpan> when) {
  if (!when) {
    return {
        .kind = DriverMessage::Kind::kernel_failed, .unit = unit, .error = std::move(when).error()};
  }
  return {.kind = DriverMessage::Kind::kernel_finished, .unit = unit, .when = *when};
}

struct Kernel {
  enum class Kind { compute, end };
  Kind kind = Kind::end;
  UnitNumber unit = 0;
  uint32_t index = 0;
  const std::byte* bytes = nullptr;
  Status outcome;  // Kind::end: the inference's outcome
};

class DrivenExecutor final : public Executor, private DeviceListener {
 public:
  DrivenExecutor(std::vector<UnitBytes> units, const ExecutorOptions& options, UnitWork& work,
                 const ScheduleSettings& settings, Schedule schedule,
                 std::unique_ptr<Device> device)
      : units_(std::move(units)),
        options_(options),
        work_(work),
        device_(std::move(device)),
        schedule_settings_(settings),
        schedule_(std::move(schedule)),
        reads_(units_, options_),
        read_places_(2 * units_.size()),
        kernel_places_(2 * units_.size()),
        inferences_(units_.size()) {}
  ~DrivenExecutor() override;

  Status open();
  Status run() override;
  void start() override;
  Result<std::optional<UnitTask>> take() override;
  void finish(const UnitTask& task, Status computed) override;
  void let_go(UnitNumber end) override;
  void set_reads_across_inferences(bool reads_across) override;
  const Timeline& times() const override { return inferences_.last(); }
  uint64_t window_bytes() const override {
    return schedule_.rings().bytes() + schedule_.pinned_bytes();
  }
  uint64_t read_bytes() const override { return reads_.read_bytes(); }
  uint64_t reading_processor_ns() const override;
  const char* reader_name() const override { return reads_.reader_name(); }

 private:
  void drive(std::promise<Status>& opened);
  Status run_as_driver();
  bool is_driven_by_caller() const { return options_.driver == Driver::caller; }
  uint64_t largest_streamed_bytes() const;
  void exchange_reads(int64_t timeout_ns);
  io::Wakeup sleep();
  void start_what_may_start();
  void start_actions();
  void start_reads();
  uint64_t reads_at_once_bytes() const;
  void take_reads(std::span<const io::Completion> completions);
  void take_in_order();
  void take_message(DriverMessage& message);
  void start_inferences();
  void end_inferences();
  void give_up(Error error);
  void tell_failure();
  void begin_anew();
  bool is_idle() const { return reads_.in_flight() + copies_ + kernels_ == 0; }
  void on_copied(UnitNumber unit, Result<TimeSpan> when) override;
  void on_computed(UnitNumber unit, Result<TimeSpan> when) override;

  const UnitBytes& at(UnitNumber unit) const { return units_[schedule_.index(unit)]; }
  Place& read_place(UnitNumber unit) { return read_places_[unit % read_places_.size()]; }
  Place& kernel_place(UnitNumber unit) { return kernel_places_[unit % kernel_places_.size()]; }

  const std::vector<UnitBytes> units_;
  const ExecutorOptions options_;
  UnitWork& work_;
  Inbox inbox_;
  // Reports to the inbox.
  std::unique_ptr<Device> device_;
  WorkLine<Kernel> kernels_line_;
  std::thread driver_;
  std::atomic<UnitNumber> wakes_from_{0};  // ends of kernels from this unit on wake the driver
  uint64_t failures_seen_ = 0;             // failures that `take` has returned

  // Only the driver uses these.
  ScheduleSettings schedule_settings_;
  Schedule schedule_;
  UnitReads reads_;
  // By number modulo 2 · units, because so many units can be under way.
  std::vector<Place> read_places_;
  std::vector<Place> kernel_places_;
  uint32_t copies_ = 0;   // started, and not finished
  uint32_t kernels_ = 0;  // put in line or started, and not finished
  InferencesUnderWay inferences_;
  uint64_t failures_told_ = 0;
  bool is_failure_told_ = false;
  bool is_stopping_ = false;
  // True if the caller computes one unit after the other (`run`). A caller of `take` may take
  // several units at once, so then the driver must wake for each read.
  bool may_doze_ = false;
  std::optional<Error> failure_;
  uint64_t caller_reading_ns_ = 0;  // the caller's processor time for reads, if the caller drives
};

uint64_t processor_ns(clockid_t clock) {
  timespec taken = {};
  clock_gettime(clock, &taken);
  return static_cast<uint64_t>(taken.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(taken.tv_nsec);
}

Status DrivenExecutor::open() {
  if (!inbox_.is_open()) {
    return fail(fmt::format("no timerfd: {}", std::strerror(errno)),
                "too many open files: raise `ulimit -n`", errno);
  }
  const DeviceNeeds needs = {.rings = schedule_.rings(),
                             .pinned_bytes = schedule_.pinned_bytes(),
                             .has_copies = schedule_.has_copies(),
                             .piece_bytes_max = largest_streamed_bytes(),
                             .units_under_way_max = 2 * units_.size()};
  if (Status taken = device_->open(needs, *this); !taken) return taken;
  if (is_driven_by_caller()) {
    WP_ASSERT(!schedule_.has_copies() && !device_->kernels_follow_copies());
    return reads_.open(-1);
  }
  auto driver =
      start_thread_that_opens("wp-driver", [this](std::promise<Status>& opened) { drive(opened); });
  if (!driver) return forward_error(std::move(driver));
  driver_ = std::move(*driver);
  return {};
}

DrivenExecutor::~DrivenExecutor() {
  if (!driver_.joinable()) return;
  inbox_.put({.kind = DriverMessage::Kind::stop});
  driver_.join();
}

uint64_t DrivenExecutor::reading_processor_ns() const {
  if (is_driven_by_caller()) return caller_reading_ns_;
  clockid_t clock;
  auto& driver = const_cast<std::thread&>(driver_);
  if (pthread_getcpuclockid(driver.native_handle(), &clock) != 0) return 0;
  return processor_ns(clock);
}

uint64_t DrivenExecutor::largest_streamed_bytes() const {
  uint64_t largest = 0;
  for (const UnitBytes& unit : units_) {
    if (!unit.is_pinned) largest = std::max(largest, unit.length_bytes);
  }
  return largest;
}

// ---- The thread that computes ----

Status DrivenExecutor::run() {
  if (is_driven_by_caller()) return run_as_driver();
  inbox_.put({.kind = DriverMessage::Kind::start_inference,
              .is_run = true,
              .failures_seen = failures_seen_});
  Status outcome;
  for (;;) {
    Result<std::optional<UnitTask>> task = take();
    if (!task) {
      device_->drain();
      return forward_error(std::move(task));
    }
    if (!*task) return {};
    // Units that were in line behind a failed one are finished without being computed.
    if (outcome) outcome = device_->compute(**task, work_, {});
    if (!outcome) finish(**task, outcome);
  }
}

// Does the same as `drive`, but computes where `drive` sleeps.
Status DrivenExecutor::run_as_driver() {
  inbox_.put_quietly({.kind = DriverMessage::Kind::start_inference,
                      .is_run = true,
                      .failures_seen = failures_told_});
  for (;;) {
    // 1. Take in finished kernels, and start everything that may start now.
    for (DriverMessage& message : inbox_.take_all()) take_message(message);
    start_what_may_start();

    // 2. With nothing to compute, sleep until a read is finished.
    if (kernels_line_.is_empty()) {
      exchange_reads(-1);
      continue;
    }

    // 3. Compute the units in line, up to the kernel whose end makes room for enough reads. That is
    // the first kernel if some reads already wait for others to finish. Beside the first kernel,
    // start reads and take in finished ones. After a failure there may be no units left in line.
    bool is_first = true;
    const auto exchange_beside_first = [this, &is_first] {
      if (!is_first) return;
      exchange_reads(0);
      const bool has_more_reads = reads_.has_waiting();
      wakes_from_ = failure_ || has_more_reads ? 0 : schedule_.rest().until;
    };
    const auto meanwhile = [this, &exchange_beside_first] {
      exchange_beside_first();
      if (options_.beside_kernels) options_.beside_kernels();
    };
    for (bool is_needed = false; !is_needed && !kernels_line_.is_empty();) {
      Result<std::optional<UnitTask>> task = take();
      if (!task) return forward_error(std::move(task));
      if (!*task) {
        // Reads for the next inference.
        exchange_beside_first();
        return {};
      }
      Status computed = device_->compute(**task, work_, meanwhile);
      is_first = false;
      is_needed = !computed || (*task)->number >= wakes_from_;
      if (!computed) finish(**task, std::move(computed));
    }
  }
}

// Starts the reads that may start, and takes in those that are finished.
void DrivenExecutor::exchange_reads(int64_t timeout_ns) {
  const uint64_t begin_ns = processor_ns(CLOCK_THREAD_CPUTIME_ID);
  start_reads();
  WP_ASSERT(timeout_ns == 0 || reads_.in_flight() > 0);
  take_reads(reads_.wait(timeout_ns).completions);
  caller_reading_ns_ += processor_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

void DrivenExecutor::start() {
  WP_ASSERT(!is_driven_by_caller());
  inbox_.put({.kind = DriverMessage::Kind::start_inference, .failures_seen = failures_seen_});
}

void DrivenExecutor::let_go(UnitNumber end) {
  inbox_.put({.kind = DriverMessage::Kind::let_go, .unit = end, .failures_seen = failures_seen_});
}

void DrivenExecutor::set_reads_across_inferences(bool reads_across) {
  inbox_.put({.kind = DriverMessage::Kind::set_reads_across,
              .reads_across = reads_across,
              .failures_seen = failures_seen_});
}

Result<std::optional<UnitTask>> DrivenExecutor::take() {
  Kernel kernel = kernels_line_.take();
  if (kernel.kind == Kernel::Kind::end) {
    if (kernel.outcome) return std::nullopt;
    ++failures_seen_;
    return forward_error(std::move(kernel.outcome));
  }
  return UnitTask{.number = kernel.unit,
                  .unit = kernel.index,
                  .bytes = kernel.bytes,
                  .taken_ns = monotonic_ns()};
}

void DrivenExecutor::finish(const UnitTask& task, Status computed) {
  Result<TimeSpan> when = TimeSpan{task.taken_ns, monotonic_ns()};
  if (!computed) when = tl::make_unexpected(std::move(computed).error());
  // Always wakes the driver: units that were let go may only be waiting for this unit to leave the
  // ring before them.
  inbox_.put(message_of_kernel(task.number, std::move(when)));
}

// ---- The device's threads, and the one that computes ----

void DrivenExecutor::on_copied(UnitNumber unit, Result<TimeSpan> when) {
  DriverMessage message{.kind = DriverMessage::Kind::copy_finished, .unit = unit};
  if (when) {
    message.when = *when;
  } else {
    message = {.kind = DriverMessage::Kind::copy_failed, .error = std::move(when).error()};
  }
  inbox_.put(std::move(message));
}

// Wakes the driver only if it waits for this kernel (Rest). The driver stores `wakes_from_` before
// it looks into the inbox for the last time. This function puts the message in before it loads
// `wakes_from_`. So at least one of the two sees what the other did.
void DrivenExecutor::on_computed(UnitNumber unit, Result<TimeSpan> when) {
  const bool is_failed = !when;
  inbox_.put_quietly(message_of_kernel(unit, std::move(when)));
  if (is_driven_by_caller() || (!is_failed && unit < wakes_from_)) return;
  if (!is_failed && !kernels_line_.is_empty()) {
    inbox_.wake_soon();
  } else {
    inbox_.wake();
  }
}

// ---- The driver ----

void DrivenExecutor::drive(std::promise<Status>& opened) {
  // The disk idles while the driver is late. The driver needs only microseconds at a time.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -10);
  Status status = reads_.open(inbox_.fd());
  const bool is_fine = status.has_value();
  opened.set_value(std::move(status));
  if (!is_fine) return;

  while (!is_stopping_ || reads_.in_flight() > 0) {
    // 1. Start everything that may start now, and tell callers which inferences are over.
    start_what_may_start();
    if (!is_stopping_) start_reads();

    // 2. Sleep until a read is finished or a message comes.
    const io::Wakeup wakeup = sleep();

    // 3. Take in finished reads, in the order of the units.
    take_reads(wakeup.completions);

    // 4. Handle messages: finished copies and kernels, and inferences that callers ask for.
    for (DriverMessage& message : inbox_.take_all()) take_message(message);
  }
}

void DrivenExecutor::start_what_may_start() {
  if (failure_) return tell_failure();
  if (is_stopping_) return;
  // Units that were let go leave the ring without an event, and then one more inference may start.
  do {
    start_inferences();
    start_actions();
  } while (inferences_.has_waiting() && schedule_.may_start_inference());
  end_inferences();
}

io::Wakeup DrivenExecutor::sleep() {
  const bool is_at_work = !failure_ && !is_stopping_;
  const Rest rest = is_at_work ? schedule_.rest() : Rest{};
  wakes_from_ = rest.until;
  // A message that was put in quietly before that store may be the one that the driver waits for.
  if (!inbox_.is_empty()) return {};
  const bool ignores_reads = rest.ignores_reads && may_doze_ && !reads_.has_waiting();
  return ignores_reads ? reads_.doze() : reads_.wait(-1);
}

void DrivenExecutor::start_actions() {
  for (ScheduleAction action = schedule_.next(); action.kind != ScheduleAction::Kind::none;
       action = schedule_.next()) {
    switch (action.kind) {
      case ScheduleAction::Kind::read:
        read_place(action.unit) = action.to;
        reads_.put({action.unit, at(action.unit).length_bytes, action.to});
        break;
      case ScheduleAction::Kind::copy:
        ++copies_;
        device_->start_copy(action.unit, action.from, action.to, at(action.unit).length_bytes);
        break;
      case ScheduleAction::Kind::kernel:
        ++kernels_;
        kernel_place(action.unit) = action.from;
        kernels_line_.put({.kind = Kernel::Kind::compute,
                           .unit = action.unit,
                           .index = schedule_.index(action.unit),
                           .bytes = device_->kernel_address(action.from)});
        break;
      case ScheduleAction::Kind::none:
        break;
    }
  }
}

// An inference cannot begin before its first unit is here, and reads that share the disk end at
// about the same time. So little is read beside the first unit.
uint64_t DrivenExecutor::reads_at_once_bytes() const {
  const std::optional<UnitNumber> first = reads_.first();
  const bool awaits_first_unit = kernels_ == 0 && first && schedule_.index(*first) == 0;
  if (awaits_first_unit) return ReadLine::first_bytes_under_way_max;
  // No thread starts more reads until the next kernel has ended, and no thread waits for the first
  // of these.
  if (is_driven_by_caller() && kernels_ > 0) return UINT64_MAX;
  return ReadLine::bytes_under_way_max;
}

void DrivenExecutor::start_reads() {
  while (const auto read = reads_.take(reads_at_once_bytes())) {
    inferences_.times(read->unit) = {.read = {.start_ns = monotonic_ns()}};
    reads_.start(read->unit, device_->host_address(read->to));
  }
}

void DrivenExecutor::take_reads(std::span<const io::Completion> completions) {
  for (const io::Completion& completion : completions) {
    inferences_.times(completion.tag).read.finish_ns = monotonic_ns();
    if (Status read = reads_.on_finished(completion); !read) give_up(std::move(read).error());
  }
  take_in_order();
}

void DrivenExecutor::take_in_order() {
  while (!failure_) {
    const std::optional<UnitNumber> unit = reads_.take_finished();
    if (!unit) return;
    Status taken = work_.take_in(
        schedule_.index(*unit), {device_->host_address(read_place(*unit)), at(*unit).length_bytes});
    if (!taken) return give_up(std::move(taken).error());
    schedule_.on_read_finished(*unit);
  }
}

void DrivenExecutor::take_message(DriverMessage& message) {
  switch (message.kind) {
    case DriverMessage::Kind::stop:
      is_stopping_ = true;
      return;
    // A request is void if its sender did not know yet of a failure that ended the inferences.
    case DriverMessage::Kind::start_inference:
      if (message.failures_seen != failures_told_) return;
      if (is_failure_told_) begin_anew();
      inferences_.ask();
      may_doze_ = message.is_run;
      return;
    case DriverMessage::Kind::let_go:
      if (message.failures_seen != failures_told_) return;
      if (is_failure_told_) begin_anew();
      schedule_.let_go(message.unit);
      return;
    case DriverMessage::Kind::set_reads_across:
      if (message.failures_seen != failures_told_) return;
      schedule_settings_.reads_across_inferences = message.reads_across;
      schedule_.set_reads_across_inferences(message.reads_across);
      return;
    case DriverMessage::Kind::copy_finished:
      --copies_;
      if (failure_) return;
      inferences_.times(message.unit).copy = message.when;
      device_->let_go(read_place(message.unit), at(message.unit).length_bytes);
      schedule_.on_copy_finished(message.unit);
      return;
    case DriverMessage::Kind::copy_failed:
      --copies_;
      return give_up(std::move(message.error));
    case DriverMessage::Kind::kernel_failed:
      --kernels_;
      return give_up(std::move(message.error));
    case DriverMessage::Kind::kernel_finished:
      --kernels_;
      if (failure_) return;
      if (!reads_.was_read(message.unit)) inferences_.times(message.unit) = {};
      inferences_.times(message.unit).kernel = message.when;
      device_->let_go(kernel_place(message.unit), at(message.unit).length_bytes);
      schedule_.on_kernel_finished(message.unit);
      return;
  }
}

void DrivenExecutor::start_inferences() {
  while (inferences_.has_waiting() && schedule_.may_start_inference()) {
    inferences_.start();
    schedule_.start_inference();
  }
}

void DrivenExecutor::end_inferences() {
  while (inferences_.ended() < schedule_.inferences_finished()) {
    inferences_.end();
    kernels_line_.put({});
  }
}

// The first failure counts. Nothing in line is started any more. The driver waits for everything in
// flight.
void DrivenExecutor::give_up(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  reads_.cancel_waiting();
  copies_ -= device_->cancel_copies();
  // The ends of earlier inferences stay in line: a caller may wait for one.
  kernels_ -=
      kernels_line_.remove_if([](const Kernel& it) { return it.kind == Kernel::Kind::compute; });
}

// Tells the failure to the caller that waits for an inference, or otherwise to the next caller that
// asks for one. Units that were taken keep their bytes until they are finished. Nothing begins
// anew, not even reading ahead, before a caller asks again: the caller may first fix the cause.
void DrivenExecutor::tell_failure() {
  if (inferences_.is_wanted() && !is_failure_told_ && reads_.in_flight() + copies_ == 0) {
    inferences_.forget_wanted();
    is_failure_told_ = true;
    ++failures_told_;
    kernels_line_.put({.outcome = tl::make_unexpected(*failure_)});
  }
}

void DrivenExecutor::begin_anew() {
  WP_ASSERT(is_idle());
  device_->begin_anew();
  failure_.reset();
  is_failure_told_ = false;
  reads_.begin_anew();
  inferences_.begin_anew();
  schedule_ = *Schedule::make(work_units(units_), schedule_settings_);
}

}  // namespace

std::vector<WorkUnit> work_units(std::span<const UnitBytes> units) {
  std::vector<WorkUnit> made;
  for (const UnitBytes& unit : units) {
    WP_ASSERT(unit.length_bytes % os_page_bytes == 0 && unit.length_bytes <= UINT32_MAX);
    made.push_back(
        {.size_bytes = unit.length_bytes, .is_pinned = unit.is_pinned, .overlay = unit.overlay});
  }
  return made;
}

Result<std::unique_ptr<Executor>> Executor::make(std::vector<UnitBytes> units,
                                                 const ExecutorOptions& options, UnitWork& work,
                                                 std::unique_ptr<Device> device) {
  ScheduleSettings settings = options.schedule;
  settings.kernels_follow_copies = device->kernels_follow_copies();
  auto schedule = Schedule::make(work_units(units), settings);
  if (!schedule) return forward_error(std::move(schedule));
  auto executor = std::make_unique<DrivenExecutor>(std::move(units), options, work, settings,
                                                   std::move(*schedule), std::move(device));
  if (Status opened = executor->open(); !opened) return forward_error(std::move(opened));
  return executor;
}

}  // namespace weightpager::pipeline
