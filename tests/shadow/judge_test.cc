// Which policy wins on paper, where theory says which must.
#include "pager/shadow/judge.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "pager/shadow/judge_thread.h"
#include "tests/simulate/random_trace.h"

namespace weightpager::shadow {
namespace {

using simulate::SimulatorOptions;
using simulate::Trace;

SimulatorOptions situation(std::string_view policy, uint32_t window_chunks) {
  SimulatorOptions it;
  it.policy = policy;
  it.window_chunks = window_chunks;
  it.disk = {"test", 2e9, 80'000, 16, 0};
  return it;
}

// At any time a part of the model is in use, here and there, and another one later.
Trace drifting(uint32_t chunks, uint32_t touches) {
  Trace trace;
  trace.chunks = chunks;
  trace.pass_begins = {0};
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) trace.order.cyclic.push_back(chunk);
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < touches; ++i) {
    const auto chunk = static_cast<simulate::ChunkId>((i / 16 + random() % (chunks / 8)) % chunks);
    trace.touches.push_back({chunk, policy::anywhere, 20'000});
  }
  return trace;
}

TEST(Judge, KeepsPinStreamForACyclicEngine) {
  for (const uint32_t window : {40u, 200u, 360u}) {
    const auto verdict = judge(simulate::dense(20, 20, 3), situation("expert", window), {});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->best, "expert") << window;
    EXPECT_EQ(verdict->time_ratio, 1);
  }
}

TEST(Judge, PutsPinStreamInThePlaceOfWhatReadsEverything) {
  const auto verdict = judge(simulate::dense(20, 20, 3), situation("lru", 200), {});
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->best == "pin-stream" || verdict->best == "expert" ||
              verdict->best == "learned")
      << verdict->best;
  EXPECT_LT(verdict->time_ratio, 0.7);
}

TEST(Judge, FindsThatWhatDriftsIsServedBetterWithoutPins) {
  const auto verdict = judge(drifting(400, 1200), situation("expert", 100), {});
  ASSERT_TRUE(verdict);
  for (const char* kin : {"pin-stream", "expert", "learned"}) EXPECT_NE(verdict->best, kin);
  EXPECT_LT(verdict->time_ratio, 0.9);
}

TEST(Judge, LeavesOutWhatWasRefuted) {
  const Trace trace = drifting(400, 1200);
  std::vector<std::string_view> refuted;
  for (const auto& it : policy::named_policies()) {
    if (it.name != "expert") refuted.push_back(it.name);
  }
  const auto verdict = judge(trace, situation("expert", 100), refuted);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->best, "expert");
}

TEST(Judge, CanBeAbandoned) {
  std::atomic<bool> is_abandoned = true;
  SimulatorOptions options = situation("expert", 100);
  options.is_abandoned = &is_abandoned;
  EXPECT_FALSE(judge(drifting(400, 1200), options, {}));
}

// What the pager's thread hands over, 20 µs of computing after each touch.
std::vector<telemetry::RecordedTouch> recorded(const Trace& trace) {
  std::vector<telemetry::RecordedTouch> touches;
  uint64_t now_ns = 1;
  for (const simulate::Touch& touch : trace.touches) {
    touches.push_back({now_ns, now_ns + 1000, touch.chunk, 0});
    now_ns += 1000 + touch.compute_ns;
  }
  return touches;
}

// Asks on a window of 100 chunks, and waits until the thread rings. `rings` outlives the thread.
std::optional<Verdict> answer_of(JudgeThread& thread, const Trace& trace, std::atomic<int>& rings) {
  const int before = rings.load();
  const auto touches = recorded(trace);  // which the thread reads until it rings
  const bool is_asked = thread.ask(
      {.touches = touches,
       .chunk_bytes = trace.chunk_bytes,
       .chunks = trace.chunks,
       .order = trace.order,
       .situation = situation("expert", 100),
       .refuted = {}},
      [](void* bell) {
        ++*static_cast<std::atomic<int>*>(bell);
        static_cast<std::atomic<int>*>(bell)->notify_one();
      },
      &rings);
  if (!is_asked) return {};
  rings.wait(before);
  return thread.take();
}

TEST(JudgeThread, AnswersAsTheJudgeDoesAndRings) {
  const Trace trace = drifting(400, 1200);
  const auto expected = judge(trace, situation("expert", 100), {});
  std::atomic<int> rings = 0;
  JudgeThread it;
  EXPECT_FALSE(it.take());
  for (int question = 1; question <= 3; ++question) {
    const auto verdict = answer_of(it, trace, rings);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->best, expected->best);
    EXPECT_FALSE(it.take());
  }
}

// A judge that cannot tell says nothing against the policy in use, and is asked again later.
TEST(JudgeThread, WithoutAVerdictThePolicyInUseStays) {
  const Trace trace = drifting(400, 1200);
  std::atomic<int> rings = 0;
  JudgeThread it([](Trace, const SimulatorOptions&, std::span<const std::string_view>) {
    return std::optional<Verdict>();
  });
  for (int question = 1; question <= 2; ++question) {
    const auto verdict = answer_of(it, trace, rings);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->best, "expert");
  }
}

TEST(JudgeThread, EndsInTheMiddleOfAnAnswer) {
  const Trace trace = drifting(4000, 400'000);
  const auto touches = recorded(trace);
  JudgeThread it;
  ASSERT_TRUE(it.ask(
      {.touches = touches,
       .chunk_bytes = trace.chunk_bytes,
       .chunks = trace.chunks,
       .order = trace.order,
       .situation = situation("expert", 1000),
       .refuted = {}},
      [](void*) {}, nullptr));
}

}  // namespace
}  // namespace weightpager::shadow
