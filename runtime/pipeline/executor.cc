#include "runtime/pipeline/executor.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/inbox.h"
#include "runtime/pipeline/read_line.h"
#include "runtime/pipeline/unit_read.h"
#include "runtime/pipeline/work_line.h"

namespace weightpager::pipeline {
namespace {

using telemetry::monotonic_ns;

DriverMessage message_of_kernel(UnitNumber unit, Result<Span> when) {
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
  Status outcome;  // end: of the inference
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
        schedule_(std::move(schedule)) {
    for (Timeline& times : times_) times.units.resize(units_.size());
    is_read_.resize(2 * units_.size());
    read_places_.resize(2 * units_.size());
    kernel_places_.resize(2 * units_.size());
    last_reads_.resize(units_.size(), never);
  }
  ~DrivenExecutor() override;

  Status open();
  Status run() override;
  void start() override;
  Result<std::optional<UnitTask>> take() override;
  void finish(const UnitTask& task, Status computed) override;
  void let_go(UnitNumber end) override;
  void set_reads_across_inferences(bool reads_across) override;
  const Timeline& times() const override { return times_[last_slot_]; }
  uint64_t window_bytes() const override {
    return schedule_.rings().bytes() + schedule_.pinned_bytes();
  }
  uint64_t read_bytes() const override { return read_bytes_; }
  uint64_t reading_processor_ns() const override;
  const char* reader_name() const override { return reader_name_; }

 private:
  void drive(std::promise<Status>& opened);
  Status run_as_driver();
  bool is_driven_by_caller() const { return options_.driver == Driver::caller; }
  Status open_reader();
  uint64_t largest_streamed_bytes() const;
  void exchange_reads(int64_t timeout_ns);
  io::Wakeup sleep();
  void start_what_may_start();
  void start_actions();
  void start_reads();
  uint64_t reads_at_once_bytes() const;
  void take_reads(std::span<const io::Completion> completions);
  bool was_changed() const;
  void take_in_order();
  void take_message(DriverMessage& message);
  void start_inferences();
  void end_inferences();
  void give_up(Error error);
  void tell_failure();
  void begin_anew();
  bool is_idle() const { return reader_->reads_in_flight() + copies_ + kernels_ == 0; }
  void on_copied(UnitNumber unit, Result<Span> when) override;
  void on_computed(UnitNumber unit, Result<Span> when) override;

  static constexpr UnitNumber never = UINT64_MAX;

  const UnitBytes& at(UnitNumber unit) const { return units_[schedule_.index(unit)]; }
  // Of an inference since the schedule was made.
  size_t slot(uint64_t inference) const { return (first_slot_ + inference) % times_.size(); }
  UnitTimes& times(UnitNumber unit) {
    return times_[slot(unit / units_.size())].units[schedule_.index(unit)];
  }
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
  std::atomic<UnitNumber> wakes_from_{0};  // whose end, or a later one's, wakes the driver
  // Two inferences are under way at most: the one that computes and the one that is read ahead.
  std::array<Timeline, 2> times_;
  size_t last_slot_ = 0;
  uint64_t failures_seen_ = 0;  // by `take`
  std::atomic<uint64_t> read_bytes_{0};
  const char* reader_name_ = "";

  // The driver's own.
  ScheduleSettings schedule_settings_;
  Schedule schedule_;
  std::unique_ptr<io::Reader> reader_;
  ReadLine read_line_;
  std::deque<UnitNumber> reads_in_order_;  // started, and not taken in yet
  // By number modulo 2 · units: as many can be under way.
  std::vector<bool> is_read_;
  std::vector<Place> read_places_;
  std::vector<Place> kernel_places_;
  uint32_t copies_ = 0;              // given out, and not finished
  uint32_t kernels_ = 0;             // the same
  uint64_t inferences_ = 0;          // ended, since the schedule was made
  uint32_t inferences_started_ = 0;  // and not ended
  uint32_t inferences_waiting_ = 0;  // until they may start
  size_t first_slot_ = 0;
  std::vector<UnitNumber> last_reads_;  // by index
  uint64_t failures_told_ = 0;
  bool is_failure_told_ = false;
  bool is_stopping_ = false;
  // Who takes units may take more of them before the first is finished: all that are ready count.
  bool may_doze_ = false;
  std::optional<Error> failure_;
  uint64_t caller_reading_ns_ = 0;  // of the caller's processor time, where he drives
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
    return open_reader();
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
    // What was in line behind a unit that failed is given back as it is.
    if (outcome) outcome = device_->compute(**task, work_, {});
    if (!outcome) finish(**task, outcome);
  }
}

// What `drive` does, but that it computes where that sleeps.
Status DrivenExecutor::run_as_driver() {
  inbox_.put_quietly({.kind = DriverMessage::Kind::start_inference,
                      .is_run = true,
                      .failures_seen = failures_told_});
  for (;;) {
    // 1. Kernels that are finished, and what may start now.
    for (DriverMessage& message : inbox_.take_all()) take_message(message);
    start_what_may_start();

    // 2. With nothing to compute, sleep until a read is finished.
    if (kernels_line_.is_empty()) {
      exchange_reads(-1);
      continue;
    }

    // 3. Compute what is in line, up to the kernel whose end makes room for reads worth starting:
    // the first one, if there are reads already that had to wait for others. Reads go to the disk,
    // and those that are finished come in, beside that first kernel. A failure may have taken
    // everything out of line.
    bool is_exchanged = false;
    const auto exchange_once = [this, &is_exchanged] {
      if (std::exchange(is_exchanged, true)) return;
      exchange_reads(0);
      const bool has_more_reads = !read_line_.is_empty();
      wakes_from_ = failure_ || has_more_reads ? 0 : schedule_.rest().until;
    };
    const auto meanwhile = [this, &exchange_once] {
      exchange_once();
      if (options_.beside_kernels) options_.beside_kernels();
    };
    for (bool is_needed = false; !is_needed && !kernels_line_.is_empty();) {
      Result<std::optional<UnitTask>> task = take();
      if (!task) return forward_error(std::move(task));
      if (!*task) {
        // For the next inference.
        exchange_once();
        return {};
      }
      Status computed = device_->compute(**task, work_, meanwhile);
      is_needed = !computed || (*task)->number >= wakes_from_;
      if (!computed) finish(**task, std::move(computed));
    }
  }
}

// Hands over those that may start, and takes in those that are finished.
void DrivenExecutor::exchange_reads(int64_t timeout_ns) {
  const uint64_t begin_ns = processor_ns(CLOCK_THREAD_CPUTIME_ID);
  start_reads();
  WP_ASSERT(timeout_ns == 0 || reader_->reads_in_flight() > 0);
  take_reads(reader_->wait(timeout_ns).completions);
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
  Result<Span> when = Span{task.taken_ns, monotonic_ns()};
  if (!computed) when = tl::make_unexpected(std::move(computed).error());
  // Units that were let go may wait for it to leave the ring before them.
  inbox_.put(message_of_kernel(task.number, std::move(when)));
}

// ---- The device's threads, and the one that computes ----

void DrivenExecutor::on_copied(UnitNumber unit, Result<Span> when) {
  DriverMessage message{.kind = DriverMessage::Kind::copy_finished, .unit = unit};
  if (when) {
    message.when = *when;
  } else {
    message = {.kind = DriverMessage::Kind::copy_failed, .error = std::move(when).error()};
  }
  inbox_.put(std::move(message));
}

// Quietly, unless the driver waits for it (Rest). It says so before it looks for the last time, and
// here the message comes before the look at what it said: one of the two sees the other.
void DrivenExecutor::on_computed(UnitNumber unit, Result<Span> when) {
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
  // A driver that is late makes the disk idle; it takes microseconds at a time.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -10);
  Status status = open_reader();
  const bool is_fine = status.has_value();
  opened.set_value(std::move(status));
  if (!is_fine) return;

  while (!is_stopping_ || reader_->reads_in_flight() > 0) {
    // 1. Start all that may start now, and tell who waits what is over.
    start_what_may_start();
    if (!is_stopping_) start_reads();

    // 2. Sleep until a read is finished or somebody has something to say.
    const io::Wakeup wakeup = sleep();

    // 3. Reads that are finished, in the order of the units.
    take_reads(wakeup.completions);

    // 4. Copies and kernels that are, and inferences that are asked for.
    for (DriverMessage& message : inbox_.take_all()) take_message(message);
  }
}

void DrivenExecutor::start_what_may_start() {
  if (failure_) return tell_failure();
  if (is_stopping_) return;
  // Units that are let go leave without an event; then one more inference may start.
  do {
    start_inferences();
    start_actions();
  } while (inferences_waiting_ > 0 && schedule_.may_start_inference());
  end_inferences();
}

Status DrivenExecutor::open_reader() {
  io::ReaderOptions options = reader_options(units_, options_.device_read_bytes);
  options.is_of_one_thread = !is_driven_by_caller();
  if (!is_driven_by_caller()) options.watched_fd = inbox_.fd();
  auto reader =
      options_.open_reader ? options_.open_reader(options) : io::open_best_reader(options);
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);
  reader_name_ = reader_->name();
  return {};
}

io::Wakeup DrivenExecutor::sleep() {
  const bool is_at_work = !failure_ && !is_stopping_;
  const Rest rest = is_at_work ? schedule_.rest() : Rest{};
  wakes_from_ = rest.until;
  // What was put in quietly before that may be what there is to wait for.
  if (!inbox_.is_empty()) return {};
  const bool ignores_reads = rest.ignores_reads && may_doze_ && read_line_.is_empty();
  return ignores_reads ? reader_->doze(-1) : reader_->wait(-1);
}

void DrivenExecutor::start_actions() {
  for (Action action = schedule_.next(); action.kind != Action::Kind::none;
       action = schedule_.next()) {
    switch (action.kind) {
      case Action::Kind::read:
        read_place(action.unit) = action.to;
        read_line_.put({action.unit, at(action.unit).length_bytes, action.to});
        break;
      case Action::Kind::copy:
        ++copies_;
        device_->start_copy(action.unit, action.from, action.to, at(action.unit).length_bytes);
        break;
      case Action::Kind::kernel:
        ++kernels_;
        kernel_place(action.unit) = action.from;
        kernels_line_.put({.kind = Kernel::Kind::compute,
                           .unit = action.unit,
                           .index = schedule_.index(action.unit),
                           .bytes = device_->kernel_address(action.from)});
        break;
      case Action::Kind::none:
        break;
    }
  }
}

// An inference cannot begin before its first unit is here, which comes as late as what is read with
// it.
uint64_t DrivenExecutor::reads_at_once_bytes() const {
  const bool awaits_first =
      kernels_ == 0 && !reads_in_order_.empty() && schedule_.index(reads_in_order_.front()) == 0;
  if (awaits_first) return ReadLine::first_bytes_under_way_max;
  // Until the next kernel has ended nobody starts more, and nobody waits for the first of these.
  if (is_driven_by_caller() && kernels_ > 0) return UINT64_MAX;
  return ReadLine::bytes_under_way_max;
}

void DrivenExecutor::start_reads() {
  while (read_line_.may_take(reads_at_once_bytes())) {
    const UnitNumber unit = read_line_.take().unit;
    reads_in_order_.push_back(unit);
    is_read_[unit % is_read_.size()] = false;
    last_reads_[schedule_.index(unit)] = unit;
    times(unit) = {.read = {.start_ns = monotonic_ns()}};
    reader_->start(read_of(unit, at(unit), options_.fd, device_->host_address(read_place(unit))));
  }
}

void DrivenExecutor::take_reads(std::span<const io::Completion> completions) {
  for (const io::Completion& completion : completions) {
    const UnitNumber unit = completion.tag;
    const UnitBytes& wanted = at(unit);
    read_bytes_ += completion.length_bytes;
    read_line_.on_finished(wanted.length_bytes);
    times(unit).read.finish_ns = monotonic_ns();
    is_read_[unit % is_read_.size()] = true;
    if (is_short(wanted, completion)) {
      give_up(short_read(options_.file_name, wanted, completion));
    } else if (was_changed()) {
      give_up(changed_file(options_.file_name));
    }
  }
  take_in_order();
}

// Of one pass some layers would be of before, and some of after that. (Names and rights may
// change.)
bool DrivenExecutor::was_changed() const {
  if (!options_.file) return false;
  const auto now = io::identity_of(options_.fd);
  return now && options_.file->may_have_other_bytes(*now);
}

void DrivenExecutor::take_in_order() {
  while (!failure_ && !reads_in_order_.empty()) {
    const UnitNumber unit = reads_in_order_.front();
    if (!is_read_[unit % is_read_.size()]) return;
    reads_in_order_.pop_front();
    Status taken = work_.take_in(schedule_.index(unit),
                                 {device_->host_address(read_place(unit)), at(unit).length_bytes});
    if (!taken) return give_up(std::move(taken).error());
    schedule_.on_read_finished(unit);
  }
}

void DrivenExecutor::take_message(DriverMessage& message) {
  switch (message.kind) {
    case DriverMessage::Kind::stop:
      is_stopping_ = true;
      return;
    // What was wanted of inferences that have failed, by who did not know that yet, is void.
    case DriverMessage::Kind::start_inference:
      if (message.failures_seen != failures_told_) return;
      if (is_failure_told_) begin_anew();
      ++inferences_waiting_;
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
      times(message.unit).copy = message.when;
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
      // Not read in this pass: pinned, or without weights.
      if (last_reads_[schedule_.index(message.unit)] != message.unit) times(message.unit) = {};
      times(message.unit).kernel = message.when;
      device_->let_go(kernel_place(message.unit), at(message.unit).length_bytes);
      schedule_.on_kernel_finished(message.unit);
      return;
  }
}

void DrivenExecutor::start_inferences() {
  for (; inferences_waiting_ > 0 && schedule_.may_start_inference(); --inferences_waiting_) {
    times_[slot(inferences_ + inferences_started_)].start_ns = monotonic_ns();
    ++inferences_started_;
    schedule_.start_inference();
  }
}

void DrivenExecutor::end_inferences() {
  for (; inferences_ < schedule_.inferences_finished(); --inferences_started_) {
    last_slot_ = slot(inferences_++);
    times_[last_slot_].finish_ns = monotonic_ns();
    kernels_line_.put({});
  }
}

// The first failure counts. What is in line is not started any more; what is in flight is waited
// for.
void DrivenExecutor::give_up(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  read_line_.clear();
  copies_ -= device_->cancel_copies();
  // The ends of earlier inferences stay in line: somebody may wait for one.
  kernels_ -=
      kernels_line_.remove_if([](const Kernel& it) { return it.kind == Kernel::Kind::compute; });
}

// To who waits, or to the next who does. What is taken keeps its bytes until it is finished.
// Nothing begins anew, not even reading ahead, before somebody asks: he may mend first what has
// failed.
void DrivenExecutor::tell_failure() {
  const bool is_wanted = inferences_started_ + inferences_waiting_ > 0;
  if (is_wanted && !is_failure_told_ && reader_->reads_in_flight() + copies_ == 0) {
    inferences_started_ = inferences_waiting_ = 0;
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
  reads_in_order_.clear();
  inferences_ = 0;
  first_slot_ = 1 - last_slot_;
  std::fill(last_reads_.begin(), last_reads_.end(), never);
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
