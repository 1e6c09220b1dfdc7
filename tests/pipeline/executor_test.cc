// The executor against a real file: the right bytes for every unit in every pipeline, and an error
// instead of a result whenever something goes wrong.
#include "runtime/pipeline/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "pager/base/units.h"
#include "runtime/pipeline/mirrored_ring.h"
#include "tests/io/faulty_reader.h"
#include "tests/io/pattern_file.h"
#include "tests/pipeline/some_units.h"

namespace weightpager::pipeline {
namespace {

using io::PatternFile;

/// Sees to it that each unit comes with its own bytes of the file, in order.
class CheckingWork final : public UnitWork {
 public:
  explicit CheckingWork(const std::vector<UnitBytes>& units) : units_(units) {}

  Status take_in(uint32_t unit, std::span<std::byte> bytes) override {
    ++taken_in_[unit];
    EXPECT_EQ(bytes.size(), units_[unit].length_bytes);
    if (refused_unit_ == unit) return fail("checksum of unit does not match");
    return {};
  }

  Status compute(uint32_t unit, const std::byte* bytes, const Meanwhile& meanwhile) override {
    EXPECT_EQ(unit, next_) << "units come in order";
    next_ = (unit + 1) % units_.size();
    if (failing_unit_ == unit) return fail("out of memory for the kernel");
    const bool is_late = unit % 2 == 1;
    if (meanwhile && !is_late) meanwhile();
    const UnitBytes& expected = units_[unit];
    if (expected.length_bytes > 0) {
      const auto wrong =
          io::first_difference({bytes, expected.needed_bytes}, expected.offset_bytes);
      EXPECT_EQ(wrong, std::nullopt) << "unit " << unit;
      ++computed_;
    } else {
      EXPECT_EQ(bytes, nullptr);
    }
    if (on_computed_) on_computed_(unit);
    if (meanwhile && is_late) meanwhile();
    return {};
  }

  void begin_anew() { next_ = 0; }
  const std::vector<UnitBytes>& units_;
  std::vector<uint32_t> taken_in_ = std::vector<uint32_t>(units_.size());
  std::optional<uint32_t> refused_unit_;
  std::optional<uint32_t> failing_unit_;
  std::function<void(uint32_t)> on_computed_;
  uint32_t next_ = 0;
  uint64_t computed_ = 0;
};

/// Who drives what.
struct Way {
  Pipeline pipeline;
  Driver driver = Driver::own_thread;
};

class ExecutorTest : public testing::TestWithParam<Way> {
 protected:
  ExecutorOptions options(uint64_t slack_bytes = 0) const {
    Rings rings = smallest_rings(GetParam().pipeline, work_units(units_));
    if (rings.host_bytes > 0) rings.host_bytes += slack_bytes;
    if (rings.device_bytes > 0) rings.device_bytes += slack_bytes;
    return {.schedule = {.pipeline = GetParam().pipeline, .rings = rings},
            .driver = GetParam().driver,
            .fd = file_.fd(),
            .file_name = "pattern.weights",
            .device_read_bytes = 64 * KiB};
  }

  ExecutorOptions faulty_options(uint64_t number, const io::Fault& fault) const {
    ExecutorOptions it = options(64 * KiB);
    it.open_reader = io::faulty_pread(io::at_read(number, fault));
    return it;
  }

  uint64_t bytes_of_units() const {
    uint64_t sum = 0;
    for (const UnitBytes& unit : units_) sum += unit.needed_bytes;
    return sum;
  }

  PatternFile file_{5 * MiB + 1234};
  std::vector<UnitBytes> units_ = some_units(file_.size_bytes());
  CheckingWork work_{units_};
};

TEST_P(ExecutorTest, EveryUnitHasItsBytesInEveryInference) {
  for (const uint64_t slack_bytes : {uint64_t{0}, 12 * KiB, 1 * MiB}) {
    for (const bool reads_across : {false, true}) {
      ExecutorOptions it = options(slack_bytes);
      it.schedule.reads_across_inferences = reads_across;
      auto executor = Executor::make(units_, it, work_);
      ASSERT_TRUE(executor) << executor.error().message;
      for (int inference = 0; inference < 5; ++inference) {
        const Status ran = (*executor)->run();
        ASSERT_TRUE(ran) << ran.error().message;
      }
    }
  }
  const auto with_bytes = std::count_if(units_.begin(), units_.end(),
                                        [](const UnitBytes& it) { return it.length_bytes > 0; });
  EXPECT_EQ(work_.computed_, 3u * 2 * 5 * static_cast<uint64_t>(with_bytes));
}

TEST_P(ExecutorTest, PinnedUnitsAreReadOnce) {
  for (size_t i = 0; i < units_.size(); i += 3) units_[i].is_pinned = true;
  auto executor = Executor::make(units_, options(64 * KiB), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  for (int inference = 0; inference < 4; ++inference) ASSERT_TRUE((*executor)->run());
  uint64_t expected_bytes = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].length_bytes == 0) continue;
    const bool is_pinned = units_[i].is_pinned || GetParam().pipeline == Pipeline::preload;
    EXPECT_EQ(work_.taken_in_[i], is_pinned ? 1u : 4u) << "unit " << i;
    expected_bytes += (is_pinned ? 1 : 4) * units_[i].needed_bytes;
  }
  EXPECT_EQ((*executor)->read_bytes(), expected_bytes);
  for (size_t i = 0; i < units_.size(); ++i) {
    const UnitTimes& times = (*executor)->times().units[i];
    const bool is_pinned = units_[i].is_pinned || GetParam().pipeline == Pipeline::preload;
    EXPECT_EQ(times.read == TimeSpan{}, is_pinned || units_[i].length_bytes == 0) << "unit " << i;
    EXPECT_GT(times.kernel.start_ns, 0u);
  }
}

// Then nothing goes through a ring of the device, and what is pinned is copied all the same.
TEST_P(ExecutorTest, EverythingMayBePinned) {
  for (UnitBytes& unit : units_) unit.is_pinned = true;
  auto executor = Executor::make(units_, options(64 * KiB), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  for (int inference = 0; inference < 3; ++inference) ASSERT_TRUE((*executor)->run());
  EXPECT_EQ((*executor)->read_bytes(), bytes_of_units());
}

TEST_P(ExecutorTest, TimesFollowTheRulesOfThePipeline) {
  auto executor = Executor::make(units_, options(64 * KiB), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  for (int inference = 0; inference < 3; ++inference) {
    ASSERT_TRUE((*executor)->run());
    const Timeline& it = (*executor)->times();
    EXPECT_LT(it.start_ns, it.finish_ns);
    for (size_t i = 0; i < units_.size(); ++i) {
      const UnitTimes& unit = it.units[i];
      EXPECT_LE(unit.kernel.start_ns, unit.kernel.finish_ns);
      EXPECT_LE(unit.kernel.finish_ns, it.finish_ns);
      EXPECT_GE(unit.kernel.start_ns, i > 0 ? it.units[i - 1].kernel.finish_ns : it.start_ns);
      if (units_[i].length_bytes == 0 || GetParam().pipeline == Pipeline::preload) continue;
      EXPECT_GT(unit.read.start_ns, 0u);
      EXPECT_GE(unit.kernel.start_ns, unit.read.finish_ns);
      if (GetParam().pipeline == Pipeline::two_stage) continue;
      EXPECT_GE(unit.copy.start_ns, unit.read.finish_ns);
      EXPECT_GE(unit.kernel.start_ns, unit.copy.finish_ns);
    }
  }
}

TEST_P(ExecutorTest, AReadThatFailsFailsTheInferenceAndNotTheNext) {
  auto executor = Executor::make(
      units_, faulty_options(9, {.kind = io::Fault::Kind::error, .error_number = EIO}), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  const Status failed = (*executor)->run();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().error_number, EIO);
  EXPECT_NE(failed.error().message.find("pattern.weights, byte "), std::string::npos);
  work_.begin_anew();
  const Status ran = (*executor)->run();
  EXPECT_TRUE(ran) << ran.error().message;
}

TEST_P(ExecutorTest, AFileThatWasCutOffIsAnError) {
  auto executor = Executor::make(
      units_, faulty_options(9, {.kind = io::Fault::Kind::cut, .length_bytes = 100}), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  const Status failed = (*executor)->run();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("was cut off"), std::string::npos)
      << failed.error().message;
}

TEST_P(ExecutorTest, BytesThatAreRefusedAreNeverComputedWith) {
  work_.refused_unit_ = 7;
  ASSERT_GT(units_[7].length_bytes, 0u);
  auto executor = Executor::make(units_, options(64 * KiB), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_FALSE((*executor)->run());
  EXPECT_LE(work_.next_, 7u);
  work_.refused_unit_.reset();
  work_.begin_anew();
  const Status ran = (*executor)->run();
  EXPECT_TRUE(ran) << ran.error().message;
}

TEST_P(ExecutorTest, AKernelThatFailsFailsTheInference) {
  work_.failing_unit_ = 11;
  auto executor = Executor::make(units_, options(64 * KiB), work_);
  ASSERT_TRUE(executor) << executor.error().message;
  const Status failed = (*executor)->run();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "out of memory for the kernel");
  EXPECT_EQ(work_.next_, 12u) << "nothing after it is computed";
  work_.failing_unit_.reset();
  work_.begin_anew();
  EXPECT_TRUE((*executor)->run());
}

TEST_P(ExecutorTest, CanBeGivenUpBeforeTheFirstInference) {
  ExecutorOptions it = options(64 * KiB);
  it.schedule.reads_across_inferences = true;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Executor::make(units_, it, work_));
  }
}

// The bytes' earlier user writes to them until the kernel has ended for which the overlaid unit
// waits. Their next user writes to them as soon as the overlaid unit's own kernel has ended.
TEST(OverlaidUnits, AreReadWhenTheirBytesAreFree) {
  const PatternFile file(5 * MiB + 1234);
  std::vector<UnitBytes> units = some_units(file.size_bytes());
  std::vector<std::byte> arena(2 * MiB + os_page_bytes);
  const auto page = reinterpret_cast<uintptr_t>(arena.data()) % os_page_bytes;
  const std::span<std::byte> pages = std::span(arena).subspan(page > 0 ? os_page_bytes - page : 0);
  // Two places, taken in turns.
  uint32_t overlaid_units = 0, before[2] = {0, 0};
  for (uint32_t unit = 1; unit < units.size(); ++unit) {
    if (units[unit].length_bytes == 0 || units[unit].length_bytes > MiB || unit % 3 == 0) continue;
    uint32_t& last = before[overlaid_units % 2];
    units[unit].overlay = Overlay{overlaid_units++ % 2 * MiB, last};
    last = unit;
  }
  ASSERT_GT(overlaid_units, 5u);
  for (const Driver driver : {Driver::own_thread, Driver::caller}) {
    CheckingWork work(units);
    work.on_computed_ = [&](uint32_t unit) {
      for (const UnitBytes& it : units) {
        if (!it.overlay || it.overlay->after_unit != unit) continue;
        std::ranges::fill(pages.subspan(it.overlay->offset_bytes, it.length_bytes),
                          std::byte{0xee});
      }
    };
    auto executor = Executor::make(
        units,
        {.schedule = {.rings = smallest_rings(Pipeline::two_stage, work_units(units)),
                      .reads_across_inferences = true},
         .driver = driver,
         .fd = file.fd(),
         .file_name = "pattern.weights"},
        work, make_host_device(pages));
    ASSERT_TRUE(executor) << executor.error().message;
    for (int inference = 0; inference < 20; ++inference) {
      const Status ran = (*executor)->run();
      ASSERT_TRUE(ran) << ran.error().message;
    }
  }
}

// Units are large beside what is asked of a disk at once, so that reads go on across the end of an
// inference and are taken in by another thread than has started them.
TEST(CallerDrivesTest, InferencesMayComeFromDifferentThreads) {
  const PatternFile file(5 * MiB + 1234);
  const std::vector<UnitBytes> units = some_units(file.size_bytes());
  std::vector<WorkUnit> work_units;
  for (const UnitBytes& unit : units) work_units.push_back({.size_bytes = unit.length_bytes});
  CheckingWork work(units);
  auto executor =
      Executor::make(units,
                     {.schedule = {.pipeline = Pipeline::two_stage,
                                   .rings = smallest_rings(Pipeline::two_stage, work_units),
                                   .reads_across_inferences = true},
                      .driver = Driver::caller,
                      .fd = file.fd(),
                      .file_name = "pattern.weights"},
                     work);
  ASSERT_TRUE(executor) << executor.error().message;
  for (int inference = 0; inference < 20; ++inference) {
    Status ran;
    std::thread([&] { ran = (*executor)->run(); }).join();
    ASSERT_TRUE(ran) << ran.error().message;
  }
}

/// Who takes in what was read.
class WhoTakesIn final : public UnitWork {
 public:
  Status take_in(uint32_t, std::span<std::byte>) override {
    thread_ = std::this_thread::get_id();
    return {};
  }
  Status compute(uint32_t, const std::byte*, const Meanwhile& meanwhile) override {
    std::this_thread::sleep_for(compute_time_);
    is_meanwhile_ = true;
    if (meanwhile) meanwhile();
    is_meanwhile_ = false;
    return {};
  }

  std::thread::id thread_;
  std::chrono::milliseconds compute_time_{0};
  bool is_meanwhile_ = false;
};

TEST(CallerDrivesTest, NobodyNeedsToBeWoken) {
  const PatternFile file(256 * KiB);
  const std::vector<UnitBytes> units = {{.length_bytes = 256 * KiB, .needed_bytes = 256 * KiB}};
  for (const Driver driver : {Driver::own_thread, Driver::caller}) {
    WhoTakesIn work;
    auto executor = Executor::make(
        units,
        {.schedule = {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 256 * KiB}},
         .driver = driver,
         .fd = file.fd(),
         .file_name = "pattern.weights"},
        work);
    ASSERT_TRUE(executor) << executor.error().message;
    ASSERT_TRUE((*executor)->run());
    EXPECT_EQ(work.thread_ == std::this_thread::get_id(), driver == Driver::caller);
  }
}

// The first three reads fill the ring. While a unit is computed they have time to arrive, and then
// there is something to compute when the next one may start.
TEST(CallerDrivesTest, ReadsStartBesideKernels) {
  constexpr uint64_t unit_bytes = 64 * KiB;
  const PatternFile file(8 * unit_bytes);
  std::vector<UnitBytes> units;
  for (uint64_t at = 0; at < 8 * unit_bytes; at += unit_bytes) {
    units.push_back({.offset_bytes = at, .length_bytes = unit_bytes, .needed_bytes = unit_bytes});
  }
  WhoTakesIn work;
  work.compute_time_ = std::chrono::milliseconds(20);
  int reads = 0;
  int reads_beside = 0;
  auto executor = Executor::make(
      units,
      {.schedule = {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 3 * unit_bytes}},
       .driver = Driver::caller,
       .fd = file.fd(),
       .file_name = "pattern.weights",
       .open_reader = io::faulty_pread([&](uint64_t, const io::Read&) {
         ++reads;
         reads_beside += work.is_meanwhile_;
         return io::Fault{};
       })},
      work);
  ASSERT_TRUE(executor) << executor.error().message;
  ASSERT_TRUE((*executor)->run());
  EXPECT_EQ(reads, 8);
  EXPECT_GE(reads_beside, 1) << "five, unless the machine is slow";
}

// The first reads end one after the other while the executor goes. Those that wait in line for that
// never begin.
TEST(ExecutorLimitsTest, WhoStopsBeginsNoMoreReads) {
  constexpr uint64_t unit_bytes = 64 * KiB;
  constexpr int unit_count = 32;
  const PatternFile file(unit_count * unit_bytes);
  std::vector<UnitBytes> units;
  for (uint64_t at = 0; at < unit_count * unit_bytes; at += unit_bytes) {
    units.push_back({.offset_bytes = at, .length_bytes = unit_bytes, .needed_bytes = unit_bytes});
  }
  CheckingWork work(units);
  std::atomic<int> reads{0};
  auto executor = Executor::make(
      units,
      {.schedule = {.pipeline = Pipeline::two_stage,
                    .rings = {.host_bytes = unit_count * unit_bytes}},
       .fd = file.fd(),
       .file_name = "pattern.weights",
       .open_reader = io::faulty_pread([&](uint64_t number, const io::Read&) {
         ++reads;
         const auto turns = static_cast<int64_t>(10 + number);
         return io::Fault{.kind = io::Fault::Kind::late, .delay_ns = turns * 20'000'000};
       })},
      work);
  ASSERT_TRUE(executor) << executor.error().message;
  (*executor)->start();
  while (reads == 0) std::this_thread::yield();
  executor->reset();
  EXPECT_LT(reads, unit_count);
}

TEST(ExecutorLimitsTest, AWindowSmallerThanALayerIsRefused) {
  const PatternFile file(256 * KiB);
  const std::vector<UnitBytes> units = {{.length_bytes = 256 * KiB, .needed_bytes = 256 * KiB}};
  CheckingWork work(units);
  const auto executor = Executor::make(
      units,
      {.schedule = {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 128 * KiB}},
       .fd = file.fd(),
       .file_name = "pattern.weights"},
      work);
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().message.find("256.0 KiB"), std::string::npos)
      << executor.error().message;
}

/// Tells when its user comes for more after a read has failed: that it knows of the failure then.
class TellingReader final : public io::Reader {
 public:
  TellingReader(std::unique_ptr<io::Reader> real, std::atomic<bool>& is_failure_known)
      : real_(std::move(real)), is_failure_known_(is_failure_known) {}

  void start(const io::Read& read) override { real_->start(read); }
  io::Wakeup wait(int64_t timeout_ns) override {
    is_failure_known_ = has_failed_;
    const io::Wakeup wakeup = real_->wait(timeout_ns);
    for (const io::Completion& it : wakeup.completions) has_failed_ |= it.error_number != 0;
    return wakeup;
  }
  uint32_t reads_in_flight() const override { return real_->reads_in_flight(); }
  const char* name() const override { return real_->name(); }

 private:
  const std::unique_ptr<io::Reader> real_;
  bool has_failed_ = false;
  std::atomic<bool>& is_failure_known_;
};

// The read ahead begins when the only unit is finished, and has failed before the end of the
// inference is taken note of. It is the next one's.
TEST(ExecutorLimitsTest, AReadAheadThatFailsLeavesTheInferenceBeforeItAlone) {
  const PatternFile file(256 * KiB);
  const std::vector<UnitBytes> units = {{.length_bytes = 256 * KiB, .needed_bytes = 256 * KiB}};
  CheckingWork work(units);
  std::atomic<bool> is_failure_known{false};
  const auto open_reader =
      [&](const io::ReaderOptions& options) -> Result<std::unique_ptr<io::Reader>> {
    const io::Fault error = {.kind = io::Fault::Kind::error, .error_number = EIO};
    auto real = io::faulty_pread(io::at_read(1, error))(options);
    if (!real) return real;
    return std::make_unique<TellingReader>(std::move(*real), is_failure_known);
  };
  auto executor = Executor::make(units,
                                 {.schedule = {.pipeline = Pipeline::two_stage,
                                               .rings = {.host_bytes = 256 * KiB},
                                               .reads_across_inferences = true},
                                  .fd = file.fd(),
                                  .file_name = "pattern.weights",
                                  .open_reader = open_reader},
                                 work);
  ASSERT_TRUE(executor) << executor.error().message;
  (*executor)->start();
  const auto task = (*executor)->take();
  ASSERT_TRUE(task) << task.error().message;
  ASSERT_TRUE(*task);
  (*executor)->finish(**task, {});
  while (!is_failure_known) std::this_thread::yield();
  const auto end = (*executor)->take();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_FALSE(*end);
  EXPECT_FALSE((*executor)->run());
  EXPECT_TRUE((*executor)->run());
}

/// Computes for as long as it takes for events to meet in ever new ways.
class UnevenWork final : public UnitWork {
 public:
  explicit UnevenWork(uint64_t seed) : random_(seed) {}
  Status take_in(uint32_t, std::span<std::byte>) override { return {}; }
  Status compute(uint32_t, const std::byte*, const Meanwhile& meanwhile) override {
    ++computed_;
    if (meanwhile) meanwhile();
    const uint64_t turns = random_() % 4 == 0 ? random_() % 100'000 : random_() % 1'000;
    for (std::atomic<uint64_t> turn{0}; turn.load(std::memory_order_relaxed) < turns;) ++turn;
    if (random_() % 16 == 0) std::this_thread::yield();
    return {};
  }

  std::mt19937_64 random_;
  uint64_t computed_ = 0;
};

// Nothing in an executor has a time limit: a word or a read of which nobody is woken stops it for
// good, and this test with it.
TEST(ExecutorStressTest, NoneOfManyShortPassesWaitsForGood) {
  const PatternFile file(256 * KiB);
  std::mt19937_64 random(1);
  for (const bool is_uring : {true, false}) {
    for (const auto& [pipeline, driver] : {Way{Pipeline::two_stage}, Way{Pipeline::asynchronous},
                                           Way{Pipeline::two_stage, Driver::caller}}) {
      for (int round = 0; round < 8; ++round) {
        std::vector<UnitBytes> units(2 + random() % 10);
        std::vector<WorkUnit> work_units;
        for (size_t i = 0; i < units.size(); ++i) {
          if (random() % 3 > 0) {
            const uint64_t bytes = (1 + random() % 4) * os_page_bytes;
            units[i] = {.offset_bytes = i * 4 * os_page_bytes,
                        .length_bytes = bytes,
                        .needed_bytes = bytes,
                        .is_pinned = random() % 2 == 0};
          }
          work_units.push_back(
              {.size_bytes = units[i].length_bytes, .is_pinned = units[i].is_pinned});
        }
        ExecutorOptions options{.schedule = {.pipeline = pipeline,
                                             .rings = smallest_rings(pipeline, work_units),
                                             .reads_across_inferences = round % 2 == 0},
                                .driver = driver,
                                .fd = file.fd(),
                                .file_name = "pattern.weights"};
        if (options.schedule.rings.host_bytes > 0) {
          options.schedule.rings.host_bytes += random() % 4 * os_page_bytes;
        }
        if (!is_uring) options.open_reader = io::open_pread_reader;
        UnevenWork work(round);
        auto executor = Executor::make(units, options, work);
        ASSERT_TRUE(executor) << executor.error().message;
        constexpr int passes = 100;
        for (int pass = 0; pass < passes; ++pass) ASSERT_TRUE((*executor)->run());
        EXPECT_EQ(work.computed_, passes * units.size());
      }
    }
  }
}

/// At a time.
struct UnderWay {
  uint64_t most_bytes = 0;  // of more than one read
  uint32_t most_reads = 0;
  uint64_t most_bytes_at_first = 0;  // the same, before any was finished
};

/// Counts what is under way.
class CountingReader final : public io::Reader {
 public:
  CountingReader(std::unique_ptr<io::Reader> real, UnderWay& counts)
      : real_(std::move(real)), counts_(counts) {}

  void start(const io::Read& read) override {
    lengths_bytes_[read.tag] = read.length_bytes;
    uint64_t bytes = 0;
    for (const auto& [tag, length_bytes] : lengths_bytes_) bytes += length_bytes;
    if (lengths_bytes_.size() > 1) counts_.most_bytes = std::max(counts_.most_bytes, bytes);
    counts_.most_reads = std::max(counts_.most_reads, static_cast<uint32_t>(lengths_bytes_.size()));
    if (!is_first_here_) counts_.most_bytes_at_first = counts_.most_bytes;
    real_->start(read);
  }
  io::Wakeup wait(int64_t timeout_ns) override {
    const io::Wakeup wakeup = real_->wait(timeout_ns);
    for (const io::Completion& it : wakeup.completions) lengths_bytes_.erase(it.tag);
    if (!wakeup.completions.empty()) is_first_here_ = true;
    return wakeup;
  }
  uint32_t reads_in_flight() const override { return real_->reads_in_flight(); }
  const char* name() const override { return real_->name(); }

 private:
  const std::unique_ptr<io::Reader> real_;
  std::map<uint64_t, uint64_t> lengths_bytes_;  // by tag
  UnderWay& counts_;
  bool is_first_here_ = false;
};

// Of one inference after the other.
UnderWay count_reads(const std::vector<uint64_t>& units_bytes, int inferences) {
  const PatternFile file(16 * MiB);
  std::vector<UnitBytes> units;
  for (const uint64_t bytes : units_bytes) {
    const uint64_t from_bytes =
        units.empty() ? 0 : units.back().offset_bytes + units.back().length_bytes;
    units.push_back({.offset_bytes = from_bytes, .length_bytes = bytes, .needed_bytes = bytes});
  }
  UnderWay counts;
  const auto open_reader =
      [&](const io::ReaderOptions& options) -> Result<std::unique_ptr<io::Reader>> {
    auto real = io::open_pread_reader(options);
    if (!real) return real;
    return std::make_unique<CountingReader>(std::move(*real), counts);
  };
  CheckingWork work(units);
  auto executor = Executor::make(
      units,
      {.schedule = {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 16 * MiB}},
       .fd = file.fd(),
       .file_name = "pattern.weights",
       .open_reader = open_reader},
      work);
  EXPECT_TRUE(executor) << executor.error().message;
  for (int inference = 0; executor && inference < inferences; ++inference) {
    EXPECT_TRUE((*executor)->run());
  }
  if (executor) executor->reset();  // its thread counts
  return counts;
}

// The unit that is waited for shares the disk with a few others, not with all that have room.
TEST(ExecutorLimitsTest, NoMoreIsUnderWayThanKeepsADiskBusy) {
  const UnderWay counts = count_reads({1 * MiB, 1 * MiB, 1 * MiB, 1 * MiB, 1 * MiB, 6 * MiB,
                                       1 * MiB, 256 * KiB, 256 * KiB, 512 * KiB, 2 * MiB, 1 * MiB},
                                      2);
  EXPECT_EQ(counts.most_bytes, 4 * MiB) << "of more than one unit";
  EXPECT_GE(counts.most_reads, 4u);
}

// Nothing computes meanwhile, so what is read with it makes the inference longer.
TEST(ExecutorLimitsTest, TheFirstUnitIsReadWithFewOthers) {
  const UnderWay counts = count_reads(std::vector<uint64_t>(12, 64 * KiB), 1);
  EXPECT_EQ(counts.most_bytes_at_first, 256 * KiB);
}

TEST(MirroredRingTest, WhatReachesOverTheEndIsAtTheBeginning) {
  auto ring = MirroredRing::make(16 * KiB);
  ASSERT_TRUE(ring) << ring.error().message;
  std::byte* const piece = ring->at(12 * KiB);
  for (uint64_t i = 0; i < 8 * KiB; ++i) piece[i] = static_cast<std::byte>(i % 251);
  for (uint64_t i = 0; i < 4 * KiB; ++i) {
    ASSERT_EQ(ring->at(0)[i], static_cast<std::byte>((i + 4 * KiB) % 251));
  }
  ring->forget_mirror(12 * KiB, 8 * KiB);
  for (uint64_t i = 0; i < 8 * KiB; ++i) ASSERT_EQ(piece[i], static_cast<std::byte>(i % 251));
}

// Huge pages, and small ones behind the last of them.
TEST(MirroredRingTest, AllSizesOfPagesAreTheSameMemoryTwice) {
  constexpr uint64_t capacity = 5 * MiB + 4 * KiB;
  auto ring = MirroredRing::make(capacity);
  ASSERT_TRUE(ring) << ring.error().message;
  for (uint64_t i = 0; i < capacity; i += 512) {
    *reinterpret_cast<uint64_t*>(ring->at(0) + i) = i * 2654435761;
  }
  for (uint64_t i = 0; i < capacity; i += 512) {
    ASSERT_EQ(*reinterpret_cast<const uint64_t*>(ring->at(0) + capacity + i), i * 2654435761);
  }
  ring->forget_mirror(4 * MiB, 4 * MiB);
  *reinterpret_cast<uint64_t*>(ring->at(0) + capacity + MiB) = 7;
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(ring->at(MiB)), 7u);
  MirroredRing moved = std::move(*ring);
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(moved.at(MiB)), 7u);
}

std::vector<Way> all_ways() {
  std::vector<Way> ways = {{Pipeline::preload, Driver::caller},
                           {Pipeline::two_stage, Driver::caller}};
  for (const Pipeline pipeline : pipelines) ways.push_back({pipeline});
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Pipelines, ExecutorTest, testing::ValuesIn(all_ways()),
                         [](const auto& of) {
                           std::string it(name(of.param.pipeline));
                           std::replace(it.begin(), it.end(), '-', '_');
                           return of.param.driver == Driver::caller ? it + "_by_caller" : it;
                         });

}  // namespace
}  // namespace weightpager::pipeline
