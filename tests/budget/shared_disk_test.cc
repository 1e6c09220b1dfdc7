// Networks on one disk: alone as the simulator of one network says, together never faster, and in
// time where the order of their reads makes it possible.
#include "runtime/budget/shared_disk.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "runtime/pipeline/pinning.h"
#include "runtime/pipeline/simulate.h"
#include "tests/budget/pick.h"
#include "tests/pipeline/random_network.h"

namespace weightpager::budget {
namespace {

using pipeline::Pipeline;
using pipeline::UnitCosts;

SharingNetwork network_of(std::vector<UnitCosts> costs, uint64_t ring_bytes, uint64_t deadline_ns,
                          uint64_t period_ns = 0, bool reads_across = false) {
  auto schedule = pipeline::Schedule::make(pipeline::work_units(costs),
                                           {.pipeline = Pipeline::two_stage,
                                            .rings = {.host_bytes = ring_bytes},
                                            .reads_across_inferences = reads_across});
  EXPECT_TRUE(schedule);
  return {*schedule, std::move(costs), period_ns, deadline_ns};
}

// One far ahead of its need, one that needs its weights at once.
std::vector<SharingNetwork> patient_and_urgent() {
  const std::vector<UnitCosts> patient(8, {.size_bytes = 10, .read_ns = 10, .kernel_ns = 20});
  const std::vector<UnitCosts> urgent(4, {.size_bytes = 10, .read_ns = 10, .kernel_ns = 5});
  return {network_of(patient, 80, 400), network_of(urgent, 40, 60)};
}

TEST(SharedDisk, TheUrgentNetworkIsNotHeldUp) {
  const SharedDiskSettings settings = {
      .arbiter = {.in_flight_bytes_max = 10, .overtaking_bytes_max = 1000}, .read_bytes_max = 10};
  const SharedDiskTimes times = simulate_shared_disk(patient_and_urgent(), settings);
  // The first read of the other network is at the disk when the urgent one comes; then all of its
  // own: 10 + 4 · 10, and the last kernel.
  EXPECT_EQ(times.networks[1].delays_ns.front(), 55u);
  EXPECT_EQ(times.networks[1].late, 0u);
  EXPECT_EQ(times.networks[0].late, 0u);
}

TEST(SharedDisk, FirstComeFirstServedHoldsItUp) {
  const SharedDiskSettings settings = {
      .arbiter = {.in_flight_bytes_max = 10, .overtaking_bytes_max = 0}, .read_bytes_max = 10};
  const SharedDiskTimes times = simulate_shared_disk(patient_and_urgent(), settings);
  // One read each in turns, after the two that the other asked for before it: its fourth is the
  // ninth.
  EXPECT_EQ(times.networks[1].delays_ns.front(), 95u);
  EXPECT_GT(times.networks[1].late, 0u);
}

// Three inferences that are due every 100, of which 70 are reads and kernels; and one that takes
// 130 and is due every 100.
TEST(SharedDisk, InferencesStartWhenTheyAreDueOrTheOneBeforeIsFinished) {
  const std::vector<UnitCosts> costs = {{.size_bytes = 10, .read_ns = 40, .kernel_ns = 30}};
  const SharedDiskSettings settings = {.inferences_min = 3};
  const SharedDiskTimes times = simulate_shared_disk({network_of(costs, 10, 100, 100)}, settings);
  EXPECT_EQ(times.networks[0].delays_ns, (std::vector<uint64_t>{70, 70, 70}));
  EXPECT_EQ(times.end_ns, 270u);
  EXPECT_EQ(times.disk_busy_ns, 120u);
  const std::vector<UnitCosts> slow = {{.size_bytes = 10, .read_ns = 40, .kernel_ns = 90}};
  const SharedDiskTimes late = simulate_shared_disk({network_of(slow, 10, 100, 100)}, settings);
  EXPECT_EQ(late.end_ns, 390u);
  EXPECT_EQ(late.networks[0].late, 3u);
}

// Alone, pieces of a read are the read.
TEST(SharedDisk, OneNetworkIsAsTheSimulatorSays) {
  pipeline::RandomNetworks random(21);
  for (int round = 0; round < 500; ++round) {
    const std::vector<UnitCosts> costs = random.costs();
    const auto units = pipeline::work_units(costs);
    const uint64_t ring_bytes = random.rings(Pipeline::two_stage, units).host_bytes;
    const bool reads_across = round % 2 == 0;
    const SharingNetwork network = network_of(costs, ring_bytes, 1000, 0, reads_across);
    const auto expected = pipeline::simulate(network.schedule, costs, {.inferences = 4});
    const SharedDiskTimes times =
        simulate_shared_disk({network}, {.arbiter = {.in_flight_bytes_max = 1 + random.up_to(9)},
                                         .read_bytes_max = 1 + random.up_to(9),
                                         .inferences_min = 4});
    ASSERT_EQ(times.networks[0].delays_ns.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(times.networks[0].delays_ns[i], expected[i].delay_ns()) << round << ", " << i;
    }
  }
}

RC_GTEST_PROP(AnyNetworks, AreNeverFasterTogetherThanAlone, ()) {
  pipeline::RandomNetworks random(*rc::gen::arbitrary<uint32_t>());
  std::vector<SharingNetwork> networks;
  const auto count = pick(1, 5);
  for (int i = 0; i < count; ++i) {
    const std::vector<UnitCosts> costs = random.costs();
    const uint64_t ring_bytes =
        random.rings(Pipeline::two_stage, pipeline::work_units(costs)).host_bytes;
    // Never 0: who is finished at once is never finished for good.
    networks.push_back(
        network_of(costs, ring_bytes, 1 + random.up_to(2000), 1 + random.up_to(3000)));
  }
  const SharedDiskSettings settings = {.arbiter = {.in_flight_bytes_max = pick<uint64_t>(1, 40),
                                                   .overtaking_bytes_max = pick<uint64_t>(0, 100)},
                                       .read_bytes_max = pick<uint64_t>(1, 10),
                                       .inferences_min = 5};
  const SharedDiskTimes together = simulate_shared_disk(networks, settings);
  for (size_t i = 0; i < networks.size(); ++i) {
    const uint64_t alone_ns =
        pipeline::delay_ns(Pipeline::two_stage, networks[i].costs, networks[i].schedule.rings());
    RC_ASSERT(together.networks[i].delays_ns.size() >= 5u);
    for (const uint64_t delay_ns : together.networks[i].delays_ns) RC_ASSERT(delay_ns >= alone_ns);
  }
}

}  // namespace
}  // namespace weightpager::budget
