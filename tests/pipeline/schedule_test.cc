// The schedule as a state machine: what is where when, whatever the order of events.
#include "runtime/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/pipeline/random_network.h"

namespace weightpager::pipeline {
namespace {

using Kind = ScheduleAction::Kind;
using Memory = Place::Memory;

// Carries out what a schedule says, in any order that its contract allows, on memory that remembers
// for every byte whose it is.
class Machine {
 public:
  Machine(std::vector<WorkUnit> units, const ScheduleSettings& settings, RandomNetworks& random)
      : units_(units), schedule_(*Schedule::make(units, settings)), random_(random) {
    host_.resize(settings.rings.host_bytes, nobody);
    device_.resize(settings.rings.device_bytes, nobody);
    pinned_.resize(schedule_.pinned_bytes(), nobody);
    for (const WorkUnit& it : units) {
      if (!it.overlay) continue;
      arena_.resize(std::max(arena_.size(), it.overlay->offset_bytes + it.size_bytes), nobody);
    }
  }

  /// From now on the driver rests as long as it may, and sleeps for good if that is too long.
  void rest_as_long_as_possible() { is_resting_ = true; }

  void run_inference() {
    for (uint64_t idle = random_.up_to(3); idle > 0; --idle) step();
    schedule_.start_inference();
    while (!schedule_.is_inference_finished()) {
      ASSERT_TRUE(step()) << "the schedule stands still";
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }

  // Inferences that overlap, units that are let go, reads that are made ahead and not, as it comes.
  void do_anything(int steps) {
    for (; steps > 0 && !testing::Test::HasFailure(); --steps) {
      const uint64_t choice = random_.up_to(9);
      if (choice == 0) schedule_.set_reads_across_inferences(random_.up_to(1) == 0);
      if (choice == 1) {
        let_go_end_ = std::max(let_go_end_, next_kernel_ + random_.up_to(units_.size()));
        schedule_.let_go(let_go_end_);
      }
      if (schedule_.may_start_inference() && random_.up_to(3) == 0) {
        inferences_at_once_ += !schedule_.is_inference_finished();
        ++inferences_;
        schedule_.start_inference();
      }
      step();
    }
  }

  // Every unit of what was started is computed or let go.
  void finish_all() {
    while (step()) ASSERT_FALSE(testing::Test::HasFailure());
    ASSERT_TRUE(schedule_.is_inference_finished());
    ASSERT_EQ(schedule_.inferences_finished(), inferences_);
    ASSERT_GE(std::max(next_kernel_, let_go_end_), inferences_ * units_.size());
  }

  uint64_t inferences_at_once() const { return inferences_at_once_; }
  uint64_t reads_skipped() const { return reads_skipped_; }
  uint64_t kernels() const { return kernels_finished_; }
  uint64_t reads() const { return reads_finished_; }
  size_t reads_at_once_max() const { return reads_at_once_max_; }
  /// Times that the driver was woken for kernels.
  uint64_t awaited() const { return awaited_; }
  uint64_t overlaid_units() const { return overlaid_units_; }

 private:
  static constexpr uint64_t nobody = UINT64_MAX;

  bool step() {
    start_all();
    if (is_resting_) return step_while_driver_rests();
    const size_t choices = reads_.size() + !copies_.empty() + may_finish_kernel();
    if (choices == 0) return false;
    const size_t choice = random_.up_to(choices - 1);
    if (choice < reads_.size()) {
      finish_read(choice);
    } else if (!copies_.empty() && choice == reads_.size()) {
      finish_copy();
    } else {
      finish_kernel();
    }
    start_all();
    return true;
  }

  // Kernels that are not waited for end without a word, reads perhaps, until one that is. Waits
  // for nothing that is not in flight.
  bool step_while_driver_rests() {
    const Rest rest = schedule_.rest();
    const bool hears_reads = !rest.ignores_reads && !reads_.empty();
    if (!copies_.empty() && random_.up_to(1) == 0) {
      finish_copy();
    } else if (hears_reads && random_.up_to(1) == 0) {
      finish_read(random_.up_to(reads_.size() - 1));
    } else if (may_finish_kernel() && kernels_.back().unit >= rest.until) {
      ++awaited_;
      while (may_finish_kernel() && kernels_.front().unit < rest.until) finish_kernel();
      if (may_finish_kernel() && kernels_.front().unit == rest.until) finish_kernel();
    } else if (hears_reads) {
      finish_read(random_.up_to(reads_.size() - 1));
    } else if (!copies_.empty()) {
      finish_copy();
    } else {
      return false;
    }
    start_all();
    return true;
  }

  void start_all() {
    for (;;) {
      const ScheduleAction action = schedule_.next();
      const uint64_t size = units_[schedule_.index(action.unit)].size_bytes;
      switch (action.kind) {
        case Kind::none:
          return;
        case Kind::read:
          ASSERT_EQ(action.unit, next_read(action.unit)) << "reads are in order";
          ASSERT_GT(size, 0u);
          expect_left(action);
          write(action.to, action.unit);
          reads_.push_back(action);
          reads_at_once_max_ = std::max(reads_at_once_max_, reads_.size());
          break;
        case Kind::copy:
          ASSERT_GT(size, 0u);
          expect(action.from, action.unit);
          write(action.to, action.unit);
          copies_.push_back(action);
          break;
        case Kind::kernel:
          next_kernel_ = std::max(next_kernel_, let_go_end_);
          ASSERT_EQ(action.unit, next_kernel_++) << "kernels are in order";
          expect(action.from, action.unit);
          kernels_.push_back(action);
          break;
      }
    }
  }

  // The earlier user of an overlaid unit's bytes is done, in this inference.
  void expect_left(const ScheduleAction& read) {
    const auto& overlay = units_[schedule_.index(read.unit)].overlay;
    ASSERT_EQ(overlay.has_value(), read.to.memory == Memory::arena);
    if (!overlay) return;
    ++overlaid_units_;
    const UnitNumber inference = read.unit / units_.size() * units_.size();
    ASSERT_GT(std::max(next_to_finish_, let_go_end_), inference + overlay->after_unit);
  }

  // The unit itself if no unit was skipped that has to be read.
  UnitNumber next_read(UnitNumber unit) {
    for (; read_before_ < unit; ++read_before_) {
      const WorkUnit& skipped = units_[schedule_.index(read_before_)];
      const bool is_here = skipped.is_pinned && read_before_ >= units_.size();
      const bool is_needed = skipped.is_pinned || read_before_ >= let_go_end_;
      reads_skipped_ += skipped.size_bytes > 0 && !is_here && !is_needed;
      if (skipped.size_bytes > 0 && !is_here && is_needed) return read_before_;
    }
    return read_before_++;
  }

  // The device holds a kernel back until its copy is finished, if the schedule does not.
  bool may_finish_kernel() const {
    if (kernels_.empty()) return false;
    return copies_.empty() || copies_.front().unit > kernels_.front().unit;
  }

  void finish_read(size_t which) {
    const ScheduleAction action = reads_[which];
    reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(which));
    expect(action.to, action.unit);
    ++reads_finished_;
    schedule_.on_read_finished(action.unit);
  }

  void finish_copy() {
    const ScheduleAction action = copies_.front();
    copies_.pop_front();
    expect(action.from, action.unit);
    expect(action.to, action.unit);
    schedule_.on_copy_finished(action.unit);
  }

  void finish_kernel() {
    const ScheduleAction action = kernels_.front();
    kernels_.pop_front();
    expect(action.from, action.unit);
    ++kernels_finished_;
    next_to_finish_ = action.unit + 1;
    schedule_.on_kernel_finished(action.unit);
  }

  std::vector<uint64_t>& memory(Memory which) {
    if (which == Memory::host_ring) return host_;
    if (which == Memory::arena) return arena_;
    return which == Memory::device_ring ? device_ : pinned_;
  }

  // Pinned bytes belong to a unit in every pass, those of a ring to a unit in one.
  uint64_t owner(Memory which, UnitNumber unit) {
    return which == Memory::pinned ? schedule_.index(unit) : unit;
  }

  void write(const Place& place, UnitNumber unit) {
    for_each_byte(place, unit, [&](uint64_t& byte) { byte = owner(place.memory, unit); });
  }

  void expect(const Place& place, UnitNumber unit) {
    for_each_byte(place, unit, [&](uint64_t& byte) {
      ASSERT_EQ(byte, owner(place.memory, unit)) << "overwritten while it was needed";
    });
  }

  template <typename Visit>
  void for_each_byte(const Place& place, UnitNumber unit, Visit visit) {
    const uint64_t size = units_[schedule_.index(unit)].size_bytes;
    ASSERT_EQ(place.memory == Memory::none, size == 0);
    if (place.memory == Memory::none) return;
    std::vector<uint64_t>& bytes = memory(place.memory);
    ASSERT_LE(size, bytes.size());
    ASSERT_LT(place.offset_bytes, bytes.size());
    if (place.memory == Memory::pinned) {
      ASSERT_LE(place.offset_bytes + size, bytes.size());
    }
    for (uint64_t i = 0; i < size; ++i) visit(bytes[(place.offset_bytes + i) % bytes.size()]);
  }

  std::vector<WorkUnit> units_;
  Schedule schedule_;
  RandomNetworks& random_;
  std::vector<uint64_t> host_, device_, pinned_, arena_;  // by byte: whose
  std::vector<ScheduleAction> reads_;
  std::deque<ScheduleAction> copies_, kernels_;
  bool is_resting_ = false;
  uint64_t awaited_ = 0;
  uint64_t overlaid_units_ = 0;
  UnitNumber next_to_finish_ = 0;
  UnitNumber read_before_ = 0;
  UnitNumber next_kernel_ = 0;
  UnitNumber let_go_end_ = 0;
  uint64_t inferences_ = 0;
  uint64_t inferences_at_once_ = 0;
  uint64_t reads_skipped_ = 0;
  uint64_t reads_finished_ = 0;
  uint64_t kernels_finished_ = 0;
  size_t reads_at_once_max_ = 0;
};

// Every byte is there and nobody else's, from before its copy or kernel starts until after it ends:
// so live units never overlap in a ring, and nothing is freed too early.
TEST(Schedule, NoUnitIsOverwrittenWhileItIsNeeded) {
  RandomNetworks random(1);
  size_t reads_at_once_max = 0;
  for (const Pipeline pipeline : all_pipelines) {
    for (int round = 0; round < 4000; ++round) {
      std::vector<WorkUnit> units = work_units(random.costs());
      uint64_t read_in_first_pass = 0, read_in_others = 0;
      for (WorkUnit& unit : units) {
        unit.is_pinned = random.up_to(3) == 0;
        read_in_first_pass += unit.size_bytes > 0;
        read_in_others += unit.size_bytes > 0 && !unit.is_pinned && pipeline != Pipeline::preload;
      }
      const ScheduleSettings settings{.pipeline = pipeline,
                                      .rings = random.rings(pipeline, units),
                                      .reads_across_inferences = random.up_to(1) == 0,
                                      .kernels_follow_copies = random.up_to(1) == 0};
      Machine machine(units, settings, random);
      for (int inference = 1; inference <= 4; ++inference) {
        machine.run_inference();
        ASSERT_FALSE(HasFailure()) << name(pipeline) << ", round " << round;
        ASSERT_EQ(machine.kernels(), units.size() * inference);
        ASSERT_GE(machine.reads(), read_in_first_pass + read_in_others * (inference - 1));
        ASSERT_LE(machine.reads(), read_in_first_pass + read_in_others * inference);
      }
      reads_at_once_max = std::max(reads_at_once_max, machine.reads_at_once_max());
    }
  }
  EXPECT_GT(reads_at_once_max, 8u) << "reads were not in flight together: too tame a test";
}

Machine with_overlay(RandomNetworks& random) {
  std::vector<WorkUnit> units = work_units(random.costs());
  random.overlay_some(units);
  for (WorkUnit& unit : units) unit.is_pinned = !unit.overlay && random.up_to(3) == 0;
  const ScheduleSettings settings{.pipeline = Pipeline::two_stage,
                                  .rings = random.rings(Pipeline::two_stage, units),
                                  .reads_across_inferences = random.up_to(1) == 0};
  return Machine(units, settings, random);
}

TEST(Schedule, NoUnitIsOverwrittenInTheArenaOverlay) {
  RandomNetworks random(9);
  uint64_t overlaid_units = 0;
  for (int round = 0; round < 4000; ++round) {
    Machine machine = with_overlay(random);
    for (int inference = 1; inference <= 3; ++inference) machine.run_inference();
    ASSERT_FALSE(HasFailure()) << "round " << round;
    overlaid_units += machine.overlaid_units();
  }
  EXPECT_GT(overlaid_units, 4000u) << "too tame a test";
}

TEST(Schedule, NoUnitIsOverwrittenWhenInferencesOverlapAndUnitsAreLetGo) {
  RandomNetworks random(3);
  uint64_t inferences_at_once = 0, reads_skipped = 0, overlaid_units = 0;
  for (int round = 0; round < 4000; ++round) {
    Machine machine = with_overlay(random);
    machine.do_anything(100);
    machine.finish_all();
    ASSERT_FALSE(HasFailure()) << "round " << round;
    inferences_at_once += machine.inferences_at_once();
    reads_skipped += machine.reads_skipped();
    overlaid_units += machine.overlaid_units();
  }
  EXPECT_GT(inferences_at_once, 4000u) << "too tame a test";
  EXPECT_GT(reads_skipped, 4000u) << "too tame a test";
  EXPECT_GT(overlaid_units, 4000u) << "too tame a test";
}

// Whatever it is that the driver does not hear of: something in flight that it hears of remains,
// until the inference is over. Here is no clock: who rests too long stands still.
TEST(Schedule, WhoRestsAsLongAsItMayGetsThrough) {
  RandomNetworks random(4);
  uint64_t kernels = 0, awaited = 0;
  for (const Pipeline pipeline : all_pipelines) {
    for (int round = 0; round < 2000; ++round) {
      std::vector<WorkUnit> units = work_units(random.costs());
      if (pipeline == Pipeline::two_stage) random.overlay_some(units);
      for (WorkUnit& unit : units) unit.is_pinned = !unit.overlay && random.up_to(3) == 0;
      const ScheduleSettings settings{.pipeline = pipeline,
                                      .rings = random.rings(pipeline, units),
                                      .reads_across_inferences = random.up_to(1) == 0,
                                      .kernels_follow_copies = random.up_to(1) == 0};
      Machine machine(units, settings, random);
      machine.rest_as_long_as_possible();
      for (int inference = 1; inference <= 3; ++inference) machine.run_inference();
      ASSERT_FALSE(HasFailure()) << name(pipeline) << ", round " << round;
      kernels += machine.kernels();
      awaited += machine.awaited();
    }
  }
  EXPECT_LT(awaited, kernels) << "nobody rested";
}

Schedule make(std::vector<WorkUnit> units, const ScheduleSettings& settings) {
  Result<Schedule> schedule = Schedule::make(std::move(units), settings);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return *schedule;
}

void expect_none(Schedule& schedule) { EXPECT_EQ(schedule.next().kind, Kind::none); }

void expect_action(Schedule& schedule, Kind kind, UnitNumber unit, Place from, Place to) {
  const ScheduleAction action = schedule.next();
  EXPECT_EQ(action.kind, kind);
  EXPECT_EQ(action.unit, unit);
  EXPECT_EQ(action.from, from);
  EXPECT_EQ(action.to, to);
}

// A unit that does not fit behind the others reaches over the ring's end.
TEST(Schedule, UnitsFollowEachOtherRoundTheRing) {
  Schedule it = make({{.size_bytes = 4}, {.size_bytes = 4}, {.size_bytes = 3}},
                     {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 10}});
  expect_none(it);
  it.start_inference();
  expect_action(it, Kind::read, 0, {}, {Memory::host_ring, 0});
  expect_action(it, Kind::read, 1, {}, {Memory::host_ring, 4});
  expect_none(it);
  it.on_read_finished(1);  // out of order
  expect_none(it);
  it.on_read_finished(0);
  expect_action(it, Kind::kernel, 0, {Memory::host_ring, 0}, {});
  expect_action(it, Kind::kernel, 1, {Memory::host_ring, 4}, {});
  expect_none(it);
  it.on_kernel_finished(0);
  expect_action(it, Kind::read, 2, {}, {Memory::host_ring, 8});
  it.on_kernel_finished(1);
  it.on_read_finished(2);
  expect_action(it, Kind::kernel, 2, {Memory::host_ring, 8}, {});
  expect_none(it);
  EXPECT_FALSE(it.is_inference_finished());
  it.on_kernel_finished(2);
  EXPECT_TRUE(it.is_inference_finished());
  expect_none(it);
  it.start_inference();
  expect_action(it, Kind::read, 3, {}, {Memory::host_ring, 1});
}

// Eight units fill the ring: the driver is woken when four have left it, and not by reads before.
// Then each counts that would leave less than half a ring of work.
TEST(Schedule, SpaceIsMadeUseOfHalfARingAtATime) {
  Schedule it = make(std::vector<WorkUnit>(12, {.size_bytes = 1}),
                     {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 8}});
  it.start_inference();
  while (it.next().kind != Kind::none) {
  }
  EXPECT_FALSE(it.rest().ignores_reads) << "nothing is there";
  for (UnitNumber unit = 0; unit < 8; ++unit) it.on_read_finished(unit);
  while (it.next().kind != Kind::none) {
  }
  EXPECT_EQ(it.rest().until, 3u);
  EXPECT_TRUE(it.rest().ignores_reads);
  for (UnitNumber unit = 0; unit < 4; ++unit) it.on_kernel_finished(unit);
  for (UnitNumber unit = 8; unit < 12; ++unit) {
    EXPECT_EQ(it.next().kind, Kind::read);
    EXPECT_EQ(it.rest().until, 4u);
    EXPECT_FALSE(it.rest().ignores_reads);
  }
  it.on_read_finished(8);
  expect_action(it, Kind::kernel, 8, {Memory::host_ring, 0}, {});
  EXPECT_EQ(it.rest().until, 4u);
  EXPECT_TRUE(it.rest().ignores_reads) << "more than half a ring is there";
}

// Between a copy's end and its kernel's, the host's space is free and the device's is not.
TEST(Schedule, EachRingIsFreedByTheEventThatFreesIt) {
  Schedule it = make({{.size_bytes = 4}, {.size_bytes = 4}},
                     {.pipeline = Pipeline::asynchronous, .rings = {4, 4}});
  it.start_inference();
  expect_action(it, Kind::read, 0, {}, {Memory::host_ring, 0});
  it.on_read_finished(0);
  expect_action(it, Kind::copy, 0, {Memory::host_ring, 0}, {Memory::device_ring, 0});
  expect_none(it);
  it.on_copy_finished(0);
  expect_action(it, Kind::kernel, 0, {Memory::device_ring, 0}, {});
  expect_action(it, Kind::read, 1, {}, {Memory::host_ring, 0});
  it.on_read_finished(1);
  expect_none(it);
  it.on_kernel_finished(0);
  expect_action(it, Kind::copy, 1, {Memory::host_ring, 0}, {Memory::device_ring, 0});
}

// On a device that orders the two itself: a kernel is started with its copy, and the space of both
// is freed as ever.
TEST(Schedule, KernelsFollowTheirCopies) {
  Schedule it =
      make({{.size_bytes = 4}, {.size_bytes = 4}},
           {.pipeline = Pipeline::asynchronous, .rings = {4, 8}, .kernels_follow_copies = true});
  it.start_inference();
  expect_action(it, Kind::read, 0, {}, {Memory::host_ring, 0});
  expect_none(it);
  it.on_read_finished(0);
  expect_action(it, Kind::copy, 0, {Memory::host_ring, 0}, {Memory::device_ring, 0});
  expect_action(it, Kind::kernel, 0, {Memory::device_ring, 0}, {});
  expect_none(it);
  it.on_copy_finished(0);
  expect_action(it, Kind::read, 1, {}, {Memory::host_ring, 0});
  it.on_read_finished(1);
  expect_action(it, Kind::copy, 1, {Memory::host_ring, 0}, {Memory::device_ring, 4});
  expect_action(it, Kind::kernel, 1, {Memory::device_ring, 4}, {});
  it.on_kernel_finished(0);
  EXPECT_FALSE(it.is_inference_finished());
  it.on_copy_finished(1);
  it.on_kernel_finished(1);
  EXPECT_TRUE(it.is_inference_finished());
}

// Nothing of the next cycle starts before all of this one is finished; the next inference begins
// with a cycle that only reads.
TEST(Schedule, SynchronousIsInLockStep) {
  Schedule it = make({{.size_bytes = 4}, {.size_bytes = 4}, {}},
                     {.pipeline = Pipeline::synchronous, .rings = {8, 8}});
  const auto expect = [&](Kind kind, UnitNumber unit) {
    const ScheduleAction action = it.next();
    EXPECT_EQ(action.kind, kind);
    EXPECT_EQ(action.unit, unit);
  };
  for (UnitNumber first = 0; first < 9; first += 3) {
    it.start_inference();
    expect(Kind::read, first);
    expect_none(it);
    it.on_read_finished(first);
    expect(Kind::copy, first);
    expect(Kind::read, first + 1);
    expect_none(it);
    it.on_copy_finished(first);
    expect_none(it);  // the read of this cycle is not finished
    it.on_read_finished(first + 1);
    expect(Kind::kernel, first);
    expect(Kind::copy, first + 1);
    expect_none(it);
    it.on_copy_finished(first + 1);
    expect_none(it);
    it.on_kernel_finished(first);
    expect(Kind::kernel, first + 1);
    expect_none(it);
    it.on_kernel_finished(first + 1);
    expect(Kind::kernel, first + 2);
    it.on_kernel_finished(first + 2);
    expect_none(it);
    EXPECT_TRUE(it.is_inference_finished());
  }
}

TEST(Schedule, TheNextInferenceIsReadBeforeItIsAskedFor) {
  for (const bool reads_across : {false, true}) {
    Schedule it =
        make({{.size_bytes = 4}, {.size_bytes = 4}}, {.pipeline = Pipeline::two_stage,
                                                      .rings = {.host_bytes = 8},
                                                      .reads_across_inferences = reads_across});
    if (!reads_across) it.start_inference();
    expect_action(it, Kind::read, 0, {}, {Memory::host_ring, 0});
    expect_action(it, Kind::read, 1, {}, {Memory::host_ring, 4});
    it.on_read_finished(0);
    it.on_read_finished(1);
    if (reads_across) {
      expect_none(it);  // no kernel before the input is there
      it.start_inference();
    }
    expect_action(it, Kind::kernel, 0, {Memory::host_ring, 0}, {});
    expect_action(it, Kind::kernel, 1, {Memory::host_ring, 4}, {});
    it.on_kernel_finished(0);
    if (reads_across) expect_action(it, Kind::read, 2, {}, {Memory::host_ring, 0});
    expect_none(it);
  }
}

// At most one inference ahead, also where units take no space.
TEST(Schedule, ReadingAheadEndsWhereNothingHasBytes) {
  Schedule it = make({{}, {}}, {.pipeline = Pipeline::two_stage, .reads_across_inferences = true});
  for (UnitNumber unit = 0; unit < 6; unit += 2) {
    expect_none(it);
    it.start_inference();
    expect_action(it, Kind::kernel, unit, {}, {});
    expect_action(it, Kind::kernel, unit + 1, {}, {});
    it.on_kernel_finished(unit);
    it.on_kernel_finished(unit + 1);
  }
}

// The last unit of an inference may be at work while the first ones of the next are.
TEST(Schedule, OneMoreInferenceMayStartBeforeTheLastIsFinished) {
  Schedule it = make({{.size_bytes = 4}, {.size_bytes = 4}},
                     {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 12}});
  it.start_inference();
  EXPECT_TRUE(it.may_start_inference());
  it.start_inference();
  EXPECT_FALSE(it.may_start_inference());
  for (UnitNumber unit = 0; unit < 3; ++unit) {
    expect_action(it, Kind::read, unit, {}, {Memory::host_ring, 4 * unit});
    it.on_read_finished(unit);
    expect_action(it, Kind::kernel, unit, {Memory::host_ring, 4 * unit}, {});
  }
  expect_none(it);
  it.on_kernel_finished(0);
  EXPECT_FALSE(it.may_start_inference());
  it.on_kernel_finished(1);
  EXPECT_TRUE(it.may_start_inference());
  EXPECT_EQ(it.inferences_finished(), 1u);

  Schedule in_lock_step = make({{.size_bytes = 4}}, {Pipeline::synchronous, {8, 8}});
  in_lock_step.start_inference();
  EXPECT_FALSE(in_lock_step.may_start_inference());
}

// Unit 1 was read and leaves without a kernel when unit 0 does, unit 2 is not even read.
TEST(Schedule, UnitsThatAreLetGoLeaveInOrder) {
  Schedule it = make({{.size_bytes = 4}, {.size_bytes = 4}, {.size_bytes = 4}, {.size_bytes = 4}},
                     {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 8}});
  it.start_inference();
  expect_action(it, Kind::read, 0, {}, {Memory::host_ring, 0});
  expect_action(it, Kind::read, 1, {}, {Memory::host_ring, 4});
  it.on_read_finished(0);
  expect_action(it, Kind::kernel, 0, {Memory::host_ring, 0}, {});
  it.let_go(3);
  it.on_read_finished(1);
  expect_none(it);  // unit 0 is at work, and behind it there is no room
  it.on_kernel_finished(0);
  expect_action(it, Kind::read, 3, {}, {Memory::host_ring, 0});
  it.on_read_finished(3);
  expect_action(it, Kind::kernel, 3, {Memory::host_ring, 0}, {});
  it.on_kernel_finished(3);
  EXPECT_TRUE(it.is_inference_finished());
}

TEST(Schedule, ReadingAheadCanBeStoppedAndTakenUpAgain) {
  Schedule it = make({{.size_bytes = 4}}, {.pipeline = Pipeline::two_stage,
                                           .rings = {.host_bytes = 8},
                                           .reads_across_inferences = true});
  expect_action(it, Kind::read, 0, {}, {Memory::host_ring, 0});
  it.start_inference();
  it.set_reads_across_inferences(false);
  it.on_read_finished(0);
  expect_action(it, Kind::kernel, 0, {Memory::host_ring, 0}, {});
  expect_none(it);
  it.on_kernel_finished(0);
  expect_none(it);
  it.set_reads_across_inferences(true);
  expect_action(it, Kind::read, 1, {}, {Memory::host_ring, 4});
}

TEST(Schedule, PinnedUnitsAreReadOnceToTheirOwnPlace) {
  Schedule it = make({{.size_bytes = 4}, {.size_bytes = 40, .is_pinned = true}},
                     {.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 4}});
  EXPECT_EQ(it.pinned_bytes(), 40u);
  for (UnitNumber first = 0; first < 4; first += 2) {
    it.start_inference();
    expect_action(it, Kind::read, first, {}, {Memory::host_ring, 0});
    if (first == 0) expect_action(it, Kind::read, 1, {}, {Memory::pinned, 0});
    expect_none(it);
    it.on_read_finished(first);
    if (first == 0) it.on_read_finished(1);
    expect_action(it, Kind::kernel, first, {Memory::host_ring, 0}, {});
    expect_action(it, Kind::kernel, first + 1, {Memory::pinned, 0}, {});
    it.on_kernel_finished(first);
    it.on_kernel_finished(first + 1);
  }
}

TEST(Schedule, PreloadReadsEverythingBeforeTheFirstInference) {
  Schedule it = make({{.size_bytes = 4}, {}, {.size_bytes = 8}}, {.pipeline = Pipeline::preload});
  EXPECT_EQ(it.pinned_bytes(), 12u);
  expect_action(it, Kind::read, 0, {}, {Memory::pinned, 0});
  expect_action(it, Kind::read, 2, {}, {Memory::pinned, 4});
  it.on_read_finished(0);
  it.on_read_finished(2);
  expect_none(it);
  for (UnitNumber first = 0; first < 6; first += 3) {
    it.start_inference();
    expect_action(it, Kind::kernel, first, {Memory::pinned, 0}, {});
    expect_action(it, Kind::kernel, first + 1, {}, {});
    expect_action(it, Kind::kernel, first + 2, {Memory::pinned, 4}, {});
    expect_none(it);
    for (UnitNumber unit = first; unit < first + 3; ++unit) it.on_kernel_finished(unit);
  }
}

// What is refused says how large the ring must be; that size works, and one byte less does not.
TEST(Schedule, RefusesRingsThatAreTooSmall) {
  RandomNetworks random(2);
  for (const Pipeline pipeline : all_pipelines) {
    for (int round = 0; round < 500; ++round) {
      std::vector<WorkUnit> units = work_units(random.costs());
      for (WorkUnit& unit : units) unit.is_pinned = random.up_to(3) == 0;
      const Rings smallest = smallest_rings(pipeline, units);
      ASSERT_TRUE(Schedule::make(units, {.pipeline = pipeline, .rings = smallest}));
      for (uint64_t Rings::*ring : {&Rings::host_bytes, &Rings::device_bytes}) {
        if (smallest.*ring == 0) continue;
        Rings smaller = smallest;
        smaller.*ring -= 1;
        const auto refused = Schedule::make(units, {.pipeline = pipeline, .rings = smaller});
        ASSERT_FALSE(refused) << name(pipeline);
        const std::string needed = "(" + std::to_string(smallest.*ring) + " bytes)";
        EXPECT_NE(refused.error().message.find(needed), std::string::npos)
            << refused.error().message;
      }
    }
  }
}

TEST(Schedule, RefusesALayerLargerThanTheWindow) {
  const auto refused = Schedule::make({{.size_bytes = 4096}, {.size_bytes = 3 << 20}},
                                      {.pipeline = Pipeline::two_stage, .rings = {2 << 20, 0}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "the host ring of 2.0 MiB (2097152 bytes) is too small for the two-stage pipeline of "
            "these layers: it must hold 3.0 MiB (3145728 bytes)");
  EXPECT_NE(refused.error().hint.find("--window"), std::string::npos);
}

TEST(Schedule, RefusesANetworkWithoutLayers) {
  EXPECT_FALSE(Schedule::make({}, {.pipeline = Pipeline::preload}));
}

}  // namespace
}  // namespace weightpager::pipeline
