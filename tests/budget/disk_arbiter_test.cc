// The arbiter: least slack first, and nobody starves, whatever is asked and whenever it finishes.
#include "runtime/budget/disk_arbiter.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/budget/pick.h"
#include "tests/pipeline/random_network.h"

namespace weightpager::budget {
namespace {

uint32_t network_of(const std::optional<DiskArbiter::Start>& start) {
  return start ? start->network : UINT32_MAX;
}

TEST(DiskArbiter, LeastSlackGoesFirst) {
  DiskArbiter arbiter(3, {.in_flight_bytes_max = 100, .overtaking_bytes_max = 1000});
  arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = 500});
  arbiter.ask(1, {.size_bytes = 10, .latest_start_ns = -3});
  arbiter.ask(2, {.size_bytes = 10, .latest_start_ns = 90});
  EXPECT_EQ(network_of(arbiter.next()), 1u);
  EXPECT_EQ(network_of(arbiter.next()), 2u);
  EXPECT_EQ(network_of(arbiter.next()), 0u);
  EXPECT_FALSE(arbiter.next());
  EXPECT_EQ(arbiter.in_flight_bytes(), 30u);
}

TEST(DiskArbiter, WhereNothingIsDueReadsTakeTurns) {
  const uint64_t no_periods[] = {0, 0};
  const uint64_t a_period[] = {0, 1'000'000};
  const double ordinary[] = {1, 1};
  const double urgent[] = {1, 2};
  DiskArbiter arbiter(2, arbiter_settings(no_periods, ordinary));
  for (uint64_t tag = 0; tag < 3; ++tag) {
    arbiter.ask(0, {.tag = tag, .size_bytes = 10, .latest_start_ns = -500});
    arbiter.ask(1, {.tag = tag, .size_bytes = 10, .latest_start_ns = 90});
  }
  for (uint64_t tag = 0; tag < 3; ++tag) {
    EXPECT_EQ(network_of(arbiter.next()), 0u);
    EXPECT_EQ(network_of(arbiter.next()), 1u);
  }
  const uint64_t most_bytes = ArbiterSettings{}.overtaking_bytes_max;
  EXPECT_EQ(arbiter_settings(a_period, ordinary).overtaking_bytes_max, most_bytes);
  EXPECT_EQ(arbiter_settings(no_periods, urgent).overtaking_bytes_max, most_bytes);
}

TEST(DiskArbiter, ANetworksReadsKeepTheirOrder) {
  DiskArbiter arbiter(1, {});
  arbiter.ask(0, {.tag = 1, .size_bytes = 10, .latest_start_ns = 500});
  arbiter.ask(0, {.tag = 2, .size_bytes = 10, .latest_start_ns = 5});
  EXPECT_EQ(arbiter.next()->read.tag, 1u);
  EXPECT_EQ(arbiter.next()->read.tag, 2u);
}

TEST(DiskArbiter, FewBytesAreAtTheDisk) {
  DiskArbiter arbiter(2, {.in_flight_bytes_max = 15, .overtaking_bytes_max = 1000});
  arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = 1});
  arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = 2});
  arbiter.ask(1, {.size_bytes = 40, .latest_start_ns = 3});
  EXPECT_EQ(network_of(arbiter.next()), 0u);
  EXPECT_FALSE(arbiter.next());
  // Who comes now and is urgent is next.
  arbiter.ask(1, {.size_bytes = 1, .latest_start_ns = 0});
  arbiter.on_finished(10);
  EXPECT_EQ(network_of(arbiter.next()), 0u) << "each network in its own order: 40 bytes are first";
  arbiter.on_finished(10);
  EXPECT_EQ(arbiter.next()->read.size_bytes, 40u) << "larger than what may be there, and alone";
  EXPECT_FALSE(arbiter.next());
}

TEST(DiskArbiter, WhoWasOvertakenEnoughGoesFirst) {
  DiskArbiter arbiter(2, {.in_flight_bytes_max = 1000, .overtaking_bytes_max = 30});
  arbiter.ask(1, {.size_bytes = 10, .latest_start_ns = 1'000'000});
  for (int i = 0; i < 5; ++i) arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = -1});
  EXPECT_EQ(network_of(arbiter.next()), 0u);
  EXPECT_EQ(network_of(arbiter.next()), 0u);
  EXPECT_EQ(network_of(arbiter.next()), 0u);
  EXPECT_EQ(network_of(arbiter.next()), 1u);
  EXPECT_EQ(network_of(arbiter.next()), 0u);
}

TEST(DiskArbiter, WithoutOvertakingTheLongestWaitGoesFirst) {
  DiskArbiter arbiter(2, {.in_flight_bytes_max = 1000, .overtaking_bytes_max = 0});
  arbiter.ask(1, {.size_bytes = 10, .latest_start_ns = 100});
  arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = 0});
  EXPECT_EQ(network_of(arbiter.next()), 1u);
  EXPECT_EQ(network_of(arbiter.next()), 0u);
}

TEST(DiskArbiter, WhoLeavesIsForgotten) {
  DiskArbiter arbiter(2, {});
  arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = 0});
  arbiter.ask(0, {.size_bytes = 10, .latest_start_ns = 0});
  EXPECT_TRUE(arbiter.next());
  arbiter.leave(0);
  EXPECT_FALSE(arbiter.next());
  arbiter.on_finished(10);
  EXPECT_EQ(arbiter.in_flight_bytes(), 0u);
}

// The arbiter and what must be true of it, side by side.
class Watched {
 public:
  Watched(uint32_t networks, const ArbiterSettings& settings)
      : networks_(networks),
        settings_(settings),
        arbiter_(networks, settings),
        waiting_(networks) {}

  void ask(uint32_t network, uint64_t size_bytes, int64_t latest_start_ns) {
    largest_bytes_ = std::max(largest_bytes_, size_bytes);
    arbiter_.ask(network, {++tags_, size_bytes, latest_start_ns});
    waiting_[network].push_back({{tags_, size_bytes, latest_start_ns}, 0});
  }

  void start_all() {
    while (const auto start = arbiter_.next()) check(*start);
  }

  bool finish_one(size_t which) {
    if (in_flight_.empty()) return false;
    const auto at = in_flight_.begin() + static_cast<ptrdiff_t>(which % in_flight_.size());
    arbiter_.on_finished(*at);
    in_flight_.erase(at);
    return true;
  }

  bool is_anyone_waiting() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [](const auto& it) { return !it.empty(); });
  }

 private:
  struct Waiting {
    DiskRead read;
    uint64_t overtaken_bytes;
  };

  void check(const DiskArbiter::Start& start) {
    auto& own = waiting_[start.network];
    RC_ASSERT(!own.empty());
    RC_ASSERT(own.front().read.tag == start.read.tag);
    const Waiting first = own.front();
    own.pop_front();
    check_overtaking(first, start.network);
    in_flight_.push_back(start.read.size_bytes);
    uint64_t bytes = 0;
    for (const uint64_t size_bytes : in_flight_) bytes += size_bytes;
    RC_ASSERT(bytes == arbiter_.in_flight_bytes());
    RC_ASSERT(bytes <= settings_.in_flight_bytes_max || in_flight_.size() == 1);
  }

  // Nobody is overtaken for longer than promised; and as long as nobody was overtaken enough, no
  // other network's first read had less slack.
  void check_overtaking(const Waiting& first, uint32_t network) {
    const uint64_t most_bytes = settings_.overtaking_bytes_max + networks_ * largest_bytes_;
    bool is_anyone_entitled = first.overtaken_bytes >= settings_.overtaking_bytes_max;
    int64_t least_start_ns = INT64_MAX;
    for (uint32_t other = 0; other < networks_; ++other) {
      if (other == network || waiting_[other].empty()) continue;
      Waiting& it = waiting_[other].front();
      is_anyone_entitled |= it.overtaken_bytes >= settings_.overtaking_bytes_max;
      least_start_ns = std::min(least_start_ns, it.read.latest_start_ns);
      it.overtaken_bytes += first.read.size_bytes;
      RC_ASSERT(it.overtaken_bytes <= most_bytes);
    }
    RC_ASSERT(is_anyone_entitled || first.read.latest_start_ns <= least_start_ns);
  }

  uint32_t networks_;
  ArbiterSettings settings_;
  DiskArbiter arbiter_;
  std::vector<std::deque<Waiting>> waiting_;
  std::vector<uint64_t> in_flight_;
  uint64_t largest_bytes_ = 0;
  uint64_t tags_ = 0;
};

// One network is always late and never stops asking: the worst there can be for the others.
RC_GTEST_PROP(AnyReads, StartByLeastSlackAndNobodyStarves, ()) {
  const auto networks = pick(1u, 6u);
  Watched watched(networks, {.in_flight_bytes_max = pick<uint64_t>(1, 60),
                             .overtaking_bytes_max = pick<uint64_t>(0, 200)});
  const bool is_one_greedy = *rc::gen::arbitrary<bool>();
  const auto events = pick(1, 300);
  for (int i = 0; i < events; ++i) {
    if (is_one_greedy) watched.ask(0, 20, INT64_MIN / 2);
    if (*rc::gen::arbitrary<bool>()) {
      watched.ask(pick(0u, networks), pick<uint64_t>(1, 30), pick<int64_t>(-20, 20));
    } else {
      watched.finish_one(pick<size_t>(0, 8));
    }
    watched.start_all();
  }
  // When nothing more is asked, all that was asked starts.
  while (watched.finish_one(0)) watched.start_all();
  RC_ASSERT(!watched.is_anyone_waiting());
}

// When an inference is finished whose reads start at their latest starts, or when the disk is free;
// the read of `late` a nanosecond later.
uint64_t finish_ns(const std::vector<pipeline::UnitCosts>& costs,
                   const std::vector<uint64_t>& latest_starts_ns, size_t late) {
  uint64_t disk_ns = 0, kernel_ns = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].size_bytes > 0) {
      disk_ns = std::max(disk_ns, latest_starts_ns[i] + (i == late ? 1 : 0)) + costs[i].read_ns;
      kernel_ns = std::max(kernel_ns, disk_ns);
    }
    kernel_ns += costs[i].kernel_ns;
  }
  return kernel_ns;
}

TEST(DiskArbiter, LatestStartsAreTheLatest) {
  constexpr uint64_t deadline_ns = 100'000;
  pipeline::RandomNetworks random(5);
  int checked = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<pipeline::UnitCosts> costs = random.costs();
    std::vector<uint64_t> latest_starts_ns;
    for (const uint64_t before_ns : latest_starts_before_deadline(costs)) {
      latest_starts_ns.push_back(deadline_ns - before_ns);
    }
    ASSERT_LE(finish_ns(costs, latest_starts_ns, costs.size()), deadline_ns);
    for (size_t i = 0; i < costs.size(); ++i) {
      if (costs[i].size_bytes == 0) continue;
      ++checked;
      ASSERT_EQ(finish_ns(costs, latest_starts_ns, i), deadline_ns + 1) << round << ", unit " << i;
    }
  }
  EXPECT_GT(checked, 1000);
}

}  // namespace
}  // namespace weightpager::budget
