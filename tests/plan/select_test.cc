// The exact planner against all selections of small networks, against CBC, and against the optima
// that are known for GoogLeNet's shapes.
#include "runtime/plan/select.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>

#include "runtime/plan/baselines.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/series_parallel.h"
#include "tests/base/lacks.h"
#include "tests/plan/googlenet_instance.h"
#include "tests/plan/random_instance.h"

namespace weightpager::plan {
namespace {

constexpr double tolerance_ns = 1;  // 1e-6 ms

// (memory, time) of a front.
std::vector<std::pair<uint64_t, double>> points(const std::vector<Selection>& front) {
  std::vector<std::pair<uint64_t, double>> points;
  for (const Selection& it : front) points.emplace_back(it.memory_bytes(), it.time_ns);
  return points;
}

/// For each node its fastest candidate (of several: the one that needs least), layouts ignored.
std::vector<uint32_t> fastest_of_each(const Instance& instance) {
  const auto worth = [](const Candidate& it) {
    return std::pair(it.time_ns, it.held_bytes + it.workspace_bytes);
  };
  std::vector<uint32_t> chosen;
  for (const Node& node : instance.nodes) {
    const auto best = std::min_element(
        node.candidates.begin(), node.candidates.end(),
        [&](const Candidate& left, const Candidate& right) { return worth(left) < worth(right); });
    chosen.push_back(static_cast<uint32_t>(best - node.candidates.begin()));
  }
  return chosen;
}

std::vector<Selection> front_by_trying_all(const Instance& instance) {
  std::vector<Selection> all;
  for_each_selection(instance, [&](const Selection& it) { all.push_back(it); });
  std::sort(all.begin(), all.end(), [](const Selection& left, const Selection& right) {
    return std::pair(left.memory_bytes(), left.time_ns) <
           std::pair(right.memory_bytes(), right.time_ns);
  });
  std::vector<Selection> front;
  for (Selection& it : all) {
    if (front.empty() || it.time_ns < front.back().time_ns) front.push_back(std::move(it));
  }
  return front;
}

// Costs are whole numbers here, so sums are exact in whatever order.
Instance small_instance() {
  RandomInstances random(*rc::gen::arbitrary<uint64_t>());
  return random.make(7, 3);
}

uint64_t budget_of(const Instance& instance) {
  return *rc::gen::inRange<uint64_t>(0, 10 * instance.nodes.size() + 10);
}

TEST(Select, FrontsAreThoseOfAllSelections) {
  EXPECT_TRUE(rc::check([] {
    const Instance instance = small_instance();
    RC_ASSERT(check(instance).has_value());
    const auto front = pareto_front(instance);
    RC_ASSERT(front.has_value());
    RC_ASSERT(points(*front) == points(front_by_trying_all(instance)));
    RC_ASSERT(front->front().memory_bytes() == least_memory_bytes(instance));
    for (const Selection& it : *front) {
      RC_ASSERT(points({evaluate(instance, it.candidates)}) == points({it}));
    }
  }));
}

TEST(Select, TheFastestIsThatOfAllSelections) {
  EXPECT_TRUE(rc::check([] {
    const Instance instance = small_instance();
    const uint64_t budget = budget_of(instance);
    double least_ns = INFINITY;
    for_each_selection(instance, [&](const Selection& it) {
      if (it.memory_bytes() <= budget) least_ns = std::min(least_ns, it.time_ns);
    });
    const auto found = fastest(instance, budget);
    RC_ASSERT(found.has_value() == (least_ns < INFINITY));
    if (!found) return;
    RC_ASSERT(found->time_ns == least_ns);
    RC_ASSERT(found->memory_bytes() <= budget);
  }));
}

// Coarse or not, a front begins at the least memory that any selection takes; where nothing is
// held, every point of it is the best of all.
TEST(Select, FrontsBeginAtTheLeast) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Instance instance = RandomInstances(seed).make(5, 4);
    const auto front = pareto_front(instance, 4);
    ASSERT_TRUE(front) << front.error().message;
    EXPECT_EQ(front->front().memory_bytes(), least_memory_bytes(instance)) << seed;
    Instance unheld = instance;
    for (Node& node : unheld.nodes) {
      for (Candidate& it : node.candidates) it.held_bytes = 0;
    }
    const auto coarse = pareto_front(unheld, 4);
    ASSERT_TRUE(coarse);
    // All selections, one by one.
    std::vector<uint32_t> chosen(unheld.nodes.size());
    const std::function<void(size_t)> choose = [&](size_t node) {
      if (node < chosen.size()) {
        for (uint32_t c = 0; c < unheld.nodes[node].candidates.size(); ++c) {
          chosen[node] = c;
          choose(node + 1);
        }
        return;
      }
      const Selection any = evaluate(unheld, chosen);
      EXPECT_TRUE(std::ranges::any_of(*coarse, [&](const Selection& it) {
        return it.memory_bytes() <= any.memory_bytes() && it.time_ns <= any.time_ns;
      })) << seed;
    };
    choose(0);
  }
}

// Faster than, or as fast as, all that takes (nodes + 1) · quantum less.
TEST(Select, AQuantumCostsWhatItIsSaidTo) {
  EXPECT_TRUE(rc::check([] {
    const Instance instance = small_instance();
    const uint64_t budget = budget_of(instance);
    const auto quantum = *rc::gen::inRange<uint64_t>(2, 6);
    const auto found = fastest(instance, budget, quantum);
    const uint64_t lost = (instance.nodes.size() + 1) * quantum;
    const auto bound = fastest(instance, budget < lost ? 0 : budget - lost);
    if (bound && budget >= lost) RC_ASSERT(found.has_value() && found->time_ns <= bound->time_ns);
    if (found) RC_ASSERT(found->memory_bytes() <= budget);
    RC_ASSERT(found.has_value() == fastest(instance, budget).has_value());
    const auto coarse = pareto_front(instance, quantum);
    RC_ASSERT(coarse->front().memory_bytes() <= least_memory_bytes(instance) + lost);
    RC_ASSERT(coarse->back().time_ns == pareto_front(instance)->back().time_ns);
  }));
}

TEST(Select, TheLeastWorkspaceIsThatOfAllSelections) {
  EXPECT_TRUE(rc::check([] {
    const Instance instance = small_instance();
    const auto limit = static_cast<double>(*rc::gen::inRange(0, 80));
    uint64_t least = UINT64_MAX;
    for_each_selection(instance, [&](const Selection& it) {
      if (it.time_ns <= limit) least = std::min(least, it.workspace_bytes);
    });
    const auto found = least_workspace(instance, limit);
    RC_ASSERT(found.has_value() == (least < UINT64_MAX));
    if (!found) return;
    RC_ASSERT(found->workspace_bytes == least);
    RC_ASSERT(found->time_ns <= limit);
  }));
}

TEST(Select, OutOfTimeKeepsBudgetsAndTheEndsOfFronts) {
  const TimeLimit over(0);
  EXPECT_TRUE(rc::check([&] {
    const Instance instance = small_instance();
    const uint64_t least = least_memory_bytes(instance);
    RC_ASSERT(smallest(instance).memory_bytes() == least);
    const uint64_t budget = budget_of(instance);
    const auto found = fastest(instance, budget, 1, over);
    RC_ASSERT(found.has_value() == (budget >= least));
    RC_ASSERT(!found || found->memory_bytes() <= budget);
    const auto front = *pareto_front(instance, 1, over);
    RC_ASSERT(front.front().memory_bytes() == least);
    RC_ASSERT(front.back().time_ns == fastest_ignoring_memory(instance)->time_ns);
  }));
}

TEST(Select, CbcOutOfTimeKeepsBudgets) {
  WP_SKIP_FOR(lack_unless(has_integer_programming(), "built without CBC"));
  EXPECT_TRUE(rc::check([] {
    RandomInstances random(*rc::gen::arbitrary<uint64_t>());
    const Instance instance = random.make(16, 5);
    const uint64_t budget = budget_of(instance);
    for (const double seconds : {0.0, 1e-4}) {
      const auto found = fastest_by_cbc(instance, budget, TimeLimit(seconds));
      RC_ASSERT(found.has_value() == (budget >= least_memory_bytes(instance)));
      RC_ASSERT(!found || found->memory_bytes() <= budget);
    }
  }));
}

TEST(Select, CbcFindsTheSame) {
  WP_SKIP_FOR(lack_unless(has_integer_programming(), "built without CBC"));
  EXPECT_TRUE(rc::check([] {
    RandomInstances random(*rc::gen::arbitrary<uint64_t>());
    const Instance instance = random.make(16, 5);
    const uint64_t budget = budget_of(instance);
    const auto found = fastest(instance, budget);
    const auto by_cbc = fastest_by_cbc(instance, budget);
    RC_ASSERT(found.has_value() == by_cbc.has_value());
    if (!found) return;
    RC_ASSERT(std::abs(found->time_ns - by_cbc->time_ns) < 1e-3);
    RC_ASSERT(by_cbc->memory_bytes() <= budget);
    const auto least = least_memory_by_cbc(instance, found->time_ns + 0.5);
    RC_ASSERT(least.has_value());
    const auto front = *pareto_front(instance);
    const auto first_fast_enough = std::find_if(front.begin(), front.end(), [&](const auto& it) {
      return it.time_ns <= found->time_ns + 0.5;
    });
    RC_ASSERT(least->memory_bytes() == first_fast_enough->memory_bytes());
  }));
}

TEST(Select, GreedyKeepsToTheBudgetAndIsNoFaster) {
  EXPECT_TRUE(rc::check([] {
    const Instance instance = small_instance();
    const uint64_t budget = budget_of(instance);
    const auto found = greedy(instance, budget, fastest_of_each(instance));
    if (!found) return;
    RC_ASSERT(found->memory_bytes() <= budget);
    const auto best = fastest(instance, budget);
    RC_ASSERT(best.has_value() && best->time_ns <= found->time_ns);
    RC_ASSERT(fastest_ignoring_memory(instance)->time_ns <= best->time_ns);
  }));
}

// Six nodes, all edges: no node can be joined, and two cuts leave four of that kind.
Instance entangled() {
  RandomInstances random(1);
  Instance instance{.layouts = 2};
  for (int i = 0; i < 6; ++i) instance.nodes.push_back(random.node(instance, 3));
  for (uint32_t to = 1; to < 6; ++to) {
    for (uint32_t from = 0; from < to; ++from) {
      instance.edges.push_back(random.edge(instance, from, to));
    }
  }
  return instance;
}

// Four nodes, all edges but 0 → 3: no node can be joined, but one cut is enough.
Instance crossing(uint64_t seed) {
  RandomInstances random(seed);
  Instance instance{.layouts = 2};
  for (int i = 0; i < 6; ++i) instance.nodes.push_back(random.node(instance, 3));
  const std::pair<uint32_t, uint32_t> edges[] = {{0, 1}, {0, 2}, {1, 2}, {1, 3},
                                                 {2, 3}, {3, 4}, {4, 5}};
  for (const auto& [from, to] : edges) instance.edges.push_back(random.edge(instance, from, to));
  return instance;
}

// Without any time a front has both ends, and nothing that is not in the whole one's reach.
TEST(Select, WithoutTimeTheLeastAndTheFastestAreThere) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Instance instance = RandomInstances(seed).make(7, 4);
    const auto whole = pareto_front(instance);
    const auto hasty = pareto_front(instance, 1, TimeLimit(0));
    ASSERT_TRUE(whole && hasty);
    EXPECT_EQ(points({hasty->front()}), points({whole->front()})) << seed;
    EXPECT_EQ(hasty->back().time_ns, whole->back().time_ns) << seed;
    for (const Selection& it : *hasty) {
      EXPECT_TRUE(std::ranges::any_of(*whole, [&](const Selection& best) {
        return best.memory_bytes() <= it.memory_bytes() && best.time_ns <= it.time_ns;
      })) << seed;
    }
    EXPECT_EQ(points(*pareto_front(instance, 1, TimeLimit(1e6))), points(*whole)) << seed;
    const uint64_t budget = least_memory_bytes(instance);
    const auto found = fastest(instance, budget, 1, TimeLimit(0));
    ASSERT_TRUE(found);
    EXPECT_LE(found->memory_bytes(), budget) << seed;
  }
}

// Each node is slow with nothing, fast with something to hold: a front of as many points as nodes,
// of which some are kept, the ends among them.
TEST(Select, ThousandsOfNodesHaveAFrontOfSomePoints) {
  constexpr uint32_t nodes = 5000;
  Instance instance{.layouts = 2};
  for (uint32_t i = 0; i < nodes; ++i) {
    instance.nodes.push_back({{{.time_ns = 10, .layout_in = i % 2, .layout_out = i % 2},
                               {.time_ns = 3, .held_bytes = 1 + i % 7},
                               {.time_ns = 2, .held_bytes = 9, .workspace_bytes = 5}},
                              ""});
    if (i > 0) instance.edges.push_back({i - 1, i, {0, 1, 1, 0}});
  }
  EXPECT_FALSE(is_exact(instance));
  const auto front = pareto_front(instance);
  ASSERT_TRUE(front);
  EXPECT_EQ(front->front().memory_bytes(), 0u);
  EXPECT_EQ(front->back().time_ns, 2.0 * nodes);
  EXPECT_GT(front->size(), 50u);
  const auto found = fastest(instance, 4 * nodes);
  ASSERT_TRUE(found);
  EXPECT_LE(found->memory_bytes(), 4 * nodes);
  EXPECT_LT(found->time_ns, 6.0 * nodes);
  EXPECT_TRUE(greedy(instance, 4 * nodes, found->candidates));
}

TEST(Select, NetworksThatAreFarFromSeriesParallelAreRefused) {
  const Instance instance = entangled();
  const std::string message =
      "the network is not nearly series-parallel: 6 nodes cannot be joined, among them node 0, "
      "node 1, node 2, node 3, node 4, node 5, and two cuts are not enough";
  ASSERT_FALSE(pareto_front(instance));
  EXPECT_EQ(pareto_front(instance).error().message, message);
  EXPECT_EQ(fastest(instance, 1000).error().message, message);
  EXPECT_EQ(fastest(instance, 0).error().message, message);
  EXPECT_EQ(least_workspace(instance, 1000).error().message, message);
  EXPECT_EQ(cuts_needed(instance).error().message, message);
}

TEST(Select, NetworksThatAreFarFromSeriesParallelAreCbcs) {
  WP_SKIP_FOR(lack_unless(has_integer_programming(), "built without CBC"));
  const Instance instance = entangled();
  const std::vector<Selection> front = front_by_trying_all(instance);
  for (const Selection& it : front) {
    const auto found = fastest_of_any_network(instance, it.memory_bytes());
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->time_ns, it.time_ns);
    EXPECT_LE(found->memory_bytes(), it.memory_bytes());
  }
  EXPECT_GT(front.size(), 2u);
}

TEST(Select, CutsGiveTheSameAsTryingAll) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Instance instance = crossing(seed);
    const std::vector<Selection> expected = front_by_trying_all(instance);
    const auto front = pareto_front(instance);
    ASSERT_TRUE(front) << front.error().message;
    ASSERT_EQ(front->size(), expected.size()) << seed;
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ((*front)[i].time_ns, expected[i].time_ns) << seed;
      ASSERT_EQ((*front)[i].memory_bytes(), expected[i].memory_bytes()) << seed;
      // What is said is what the candidates come to.
      ASSERT_EQ(evaluate(instance, (*front)[i].candidates).time_ns, expected[i].time_ns) << seed;
    }
  }
}

// Two crossings one behind the other need a cut each.
TEST(Select, TwoCutsGiveTheSameAsTryingAll) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Instance instance = crossing(seed);
    const Instance second = crossing(seed + 1000);
    const auto nodes = static_cast<uint32_t>(instance.nodes.size()) - 2;
    instance.nodes.resize(nodes);
    std::erase_if(instance.edges, [&](const Edge& it) { return it.to >= nodes; });
    for (const Edge& it : second.edges) {
      instance.edges.push_back({it.from + nodes - 1, it.to + nodes - 1, it.change_ns});
    }
    instance.nodes.insert(instance.nodes.end(), second.nodes.begin() + 1, second.nodes.end() - 2);
    std::erase_if(instance.edges, [&](const Edge& it) { return it.to >= instance.nodes.size(); });
    ASSERT_TRUE(check(instance)) << check(instance).error().message;
    const std::vector<Selection> expected = front_by_trying_all(instance);
    const auto front = pareto_front(instance);
    ASSERT_TRUE(front) << front.error().message;
    ASSERT_EQ(front->size(), expected.size()) << seed;
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ((*front)[i].time_ns, expected[i].time_ns) << seed;
      ASSERT_EQ((*front)[i].memory_bytes(), expected[i].memory_bytes()) << seed;
    }
  }
}

TEST(Select, BudgetsTooSmallNameTheLeastFeasible) {
  const Instance instance{
      .nodes = {{{{.time_ns = 1, .held_bytes = 100}, {.time_ns = 9, .held_bytes = 10}}},
                {{{.time_ns = 1, .held_bytes = 5, .workspace_bytes = 50}}}},
      .edges = {{0, 1, {0}}}};
  EXPECT_EQ(fastest(instance, 65)->time_ns, 10);
  const auto refused = fastest(instance, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "a budget of 64 B (64 bytes) is too small: the least that any selection takes is 65 "
            "B (65 bytes), and node 1 alone needs 55 bytes");
  EXPECT_EQ(greedy(instance, 64, fastest_of_each(instance)).error().message,
            refused.error().message);
}

class GoldenGoogleNet : public testing::Test {
 protected:
  // "1.15 x" of the least memory, in bytes; no budget: 4 × is more than all that is.
  uint64_t budget(const std::string& name) const {
    const uint64_t least = golden_.expected["minimum_memory_bytes"];
    return static_cast<uint64_t>((name == "no budget" ? 10 : std::stod(name)) *
                                 static_cast<double>(least));
  }

  const GoogleNet golden_ = read_googlenet();
};

TEST_F(GoldenGoogleNet, HasTheOptimaThatAreKnown) {
  EXPECT_EQ(least_memory_bytes(golden_.instance), golden_.expected["minimum_memory_bytes"]);
  for (const auto& [name, time_ms] : golden_.expected["optimal_time_ms"].items()) {
    const auto found = fastest(golden_.instance, budget(name));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_NEAR(found->time_ns, time_ms.get<double>() * 1e6, tolerance_ns) << name;
    EXPECT_LE(found->memory_bytes(), budget(name));
  }
}

TEST_F(GoldenGoogleNet, HasThemOnItsFront) {
  const auto front = pareto_front(golden_.instance);
  ASSERT_TRUE(front) << front.error().message;
  EXPECT_EQ(front->size(), 3136u);
  EXPECT_EQ(front->front().memory_bytes(), golden_.expected["minimum_memory_bytes"]);
  for (const auto& [name, time_ms] : golden_.expected["optimal_time_ms"].items()) {
    const Selection* best = nullptr;
    for (const Selection& it : *front) {
      if (it.memory_bytes() <= budget(name)) best = &it;
    }
    ASSERT_NE(best, nullptr);
    EXPECT_NEAR(best->time_ns, time_ms.get<double>() * 1e6, tolerance_ns) << name;
  }
}

TEST_F(GoldenGoogleNet, CbcFindsTheSame) {
  WP_SKIP_FOR(lack_unless(has_integer_programming(), "built without CBC"));
  for (const auto& [name, time_ms] : golden_.expected["optimal_time_ms"].items()) {
    const auto found = fastest_by_cbc(golden_.instance, budget(name));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_NEAR(found->time_ns, time_ms.get<double>() * 1e6, tolerance_ns) << name;
    EXPECT_LE(found->memory_bytes(), budget(name));
  }
}

TEST_F(GoldenGoogleNet, HasTheWorkspacesThatAreKnown) {
  const Instance instance = with_workspaces(golden_.instance);
  for (const auto& [time_ms, bytes] : golden_.expected["workspace_bytes_for_time_ms"].items()) {
    const auto found = least_workspace(instance, std::stod(time_ms) * 1e6);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->workspace_bytes, bytes) << time_ms;
    EXPECT_LE(found->time_ns, std::stod(time_ms) * 1e6);
    if (!has_integer_programming()) continue;
    const auto by_cbc = least_memory_by_cbc(instance, std::stod(time_ms) * 1e6);
    ASSERT_TRUE(by_cbc) << by_cbc.error().message;
    EXPECT_EQ(by_cbc->workspace_bytes, bytes) << time_ms;
  }
}

// How much slower the greedy one is, by budget over the least memory: research/seeds.md, C3.
TEST_F(GoldenGoogleNet, GreedyFallsBehindAsMemoryGetsTight) {
  const std::map<std::string, double> expected = {{"2.0", 1.02}, {"1.6", 1.22},  {"1.4", 1.78},
                                                  {"1.3", 2.98}, {"1.15", 2.81}, {"1.1", 3.47},
                                                  {"1.05", 3.02}};
  for (const auto& [share, ratio] : expected) {
    const auto best = fastest(golden_.instance, budget(share));
    const auto found = greedy(golden_.instance, budget(share), fastest_of_each(golden_.instance));
    ASSERT_TRUE(best && found);
    EXPECT_LE(found->memory_bytes(), budget(share));
    EXPECT_NEAR(found->time_ns / best->time_ns, ratio, 0.01) << share;
  }
}

TEST(Check, RefusesWhatCannotBe) {
  RandomInstances random(3);
  const Instance good = random.make(7, 3);
  ASSERT_TRUE(check(good));
  const auto refused = [](Instance instance) { return !check(instance); };
  Instance bad = good;
  bad.nodes[0].candidates[0].layout_in = bad.layouts;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.nodes[0].candidates[0].time_ns = NAN;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.nodes[0].candidates[0].held_bytes = UINT64_MAX;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.nodes[0].candidates.clear();
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.edges.push_back({1, 1, std::vector<double>(bad.layouts * bad.layouts)});
  EXPECT_TRUE(refused(bad));
  bad = crossing(1);
  bad.edges.push_back(bad.edges.front());
  EXPECT_TRUE(refused(bad));
  bad.edges.back() = {0, 3, {-1, 0, 0, 0}};
  EXPECT_TRUE(refused(bad));
  bad.edges.back() = {0, 3, {0}};
  EXPECT_TRUE(refused(bad));
  bad.edges.back() = {0, 6, {0, 0, 0, 0}};
  EXPECT_TRUE(refused(bad));
  EXPECT_TRUE(refused({}));
}

}  // namespace
}  // namespace weightpager::plan
