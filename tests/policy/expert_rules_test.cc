// The rules by which experts stay, one at a time: which of two goes first, and when that changes.
#include "pager/policy/expert_rules.h"

#include <gtest/gtest.h>

#include <vector>

namespace weightpager::policy {
namespace {

/// Four layers of eight experts that take a chunk each: layer 1 has 8 to 15.
class Text {
 public:
  explicit Text(uint32_t budget_chunks) {
    std::vector<ExpertRules::ExpertSize> experts;
    std::vector<uint32_t> layers;
    for (uint32_t number = 0; number < 32; ++number) {
      experts.push_back({number / 8, 1});
      layers.push_back(number / 8);
    }
    forecast.reset(layers);
    rules.set_budget(budget_chunks);
    rules.reset(experts);
  }

  /// A pass over the layers; `used`: experts in ascending order.
  void token(const std::vector<uint32_t>& used) {
    auto next = used.begin();
    for (uint32_t layer = 0; layer < 4; ++layer) {
      begin_visit(layer);
      for (; next != used.end() && *next / 8 == layer; ++next) {
        forecast.note_use(*next);
        rules.note_use(*next);
      }
    }
  }

  void begin_visit(uint32_t layer) {
    forecast.begin_visit(layer, layer == 0);
    rules.begin_visit(layer, layer == 0);
  }

  ExpertForecast forecast;
  ExpertRules rules{forecast};
};

TEST(ExpertRules, WhatWasUsedMoreOftenStays) {
  Text text(8);
  text.token({0, 1});
  text.token({1});
  EXPECT_TRUE(text.rules.is_worth_less(0, 1));
  EXPECT_FALSE(text.rules.is_worth_less(1, 0));
}

TEST(ExpertRules, OfEqualsTheOneUsedLastGoes) {
  Text text(8);
  text.token({0, 8, 16, 24});
  EXPECT_TRUE(text.rules.is_worth_less(24, 0));
  EXPECT_TRUE(text.rules.is_worth_less(8, 0));
}

// Experts 0 to 2 were used twenty times, then 3 to 5 and nothing else: by frequency each of those
// makes room for the next of them, again and again.
TEST(ExpertRules, TheRuleThatMissesLessIsFollowed) {
  Text text(4);
  for (int token = 0; token < 20; ++token) text.token({0, 1, 2});
  EXPECT_TRUE(text.rules.is_worth_less(3, 0));
  for (int token = 0; token < 6; ++token) text.token({3, 8, 16});
  EXPECT_TRUE(text.rules.is_worth_less(0, 3));
}

// Both were used once in the last pass. Now the engine is between them: of the layer that it has
// passed, the expert was not used this time.
TEST(ExpertRules, LayersAheadWereNotPassedOverYet) {
  Text text(4);
  for (int token = 0; token < 20; ++token) text.token({0, 1, 2});
  for (int token = 0; token < 6; ++token) text.token({3, 8, 16});
  text.begin_visit(0);
  text.begin_visit(1);
  EXPECT_TRUE(text.rules.is_worth_less(3, 16));
  EXPECT_TRUE(text.rules.is_worth_less(8, 16));
}

// Four tokens in a circle, each twice. Used most and last are those that were just left behind, and
// what comes next was used least of all: only who knows the circle keeps it.
TEST(ExpertRules, WhereThePastComesAgainItSaysWhoGoes) {
  Text text(4);
  for (uint32_t token = 0; token < 8 * 20 + 5; ++token) {
    text.token({token / 2 % 4, 8 + token / 2 % 4});
  }
  // The last ones were 0, 0, 1, 1, 2; now come 2, 3, 3, 0.
  EXPECT_TRUE(text.rules.is_worth_less(1, 0));
  EXPECT_TRUE(text.rules.is_worth_less(0, 3));
  EXPECT_TRUE(text.rules.is_worth_less(3, 2));
}

TEST(ExpertRules, CountsStayInOrderForALongTime) {
  Text text(8);
  for (int token = 0; token < 100'000; ++token) {
    text.token(token % 2 == 0 ? std::vector<uint32_t>{0, 8, 9} : std::vector<uint32_t>{0, 9});
  }
  EXPECT_TRUE(text.rules.is_worth_less(8, 0));
  EXPECT_TRUE(text.rules.is_worth_less(1, 8));
}

}  // namespace
}  // namespace weightpager::policy
