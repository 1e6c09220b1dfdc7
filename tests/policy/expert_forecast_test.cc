// What the past foretells: exactly what comes where it comes again, and nothing where it does not.
#include "pager/policy/expert_forecast.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace weightpager::policy {
namespace {

constexpr uint32_t layers = 6;
constexpr uint32_t experts = 100;  // of a layer: more than a word of bits has

using Token = std::vector<std::set<uint32_t>>;  // by layer, numbers of all experts

Token random_token(std::mt19937& random, uint32_t used = 4) {
  Token token(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    while (token[layer].size() < used) token[layer].insert(layer * experts + random() % experts);
  }
  return token;
}

struct Reader {
  Reader() {
    std::vector<uint32_t> layer_of;
    for (uint32_t expert = 0; expert < layers * experts; ++expert) {
      layer_of.push_back(expert / experts);
    }
    forecast.reset(layer_of);
  }
  void visit(const Token& token, uint32_t layer) {
    forecast.begin_visit(layer, layer == 0);
    for (const uint32_t expert : token[layer]) forecast.note_use(expert);
  }
  void read(const Token& token) {
    for (uint32_t layer = 0; layer < layers; ++layer) visit(token, layer);
  }

  ExpertForecast forecast;
};

// After visit number `here` of a text that goes in a circle.
uint32_t true_visits_until(const std::vector<Token>& circle, uint32_t here, uint32_t expert) {
  const auto period = static_cast<uint32_t>(circle.size()) * layers;
  for (uint32_t visits = 1; visits <= period; ++visits) {
    const uint32_t then = (here + visits) % period;
    if (circle[then / layers][then % layers].contains(expert)) return visits;
  }
  return ExpertForecast::never;
}

TEST(ExpertForecast, ATextThatGoesInACircleIsForetoldExactly) {
  for (const uint32_t length : {1u, 2u, 3u, 7u, 16u}) {
    std::mt19937 random(length);
    std::vector<Token> circle;
    while (circle.size() < length) circle.push_back(random_token(random));
    Reader reader;
    for (uint32_t pass = 0; pass < 3 * length + 2; ++pass) reader.read(circle[pass % length]);
    const uint32_t pass = 3 * length + 2;
    for (uint32_t layer = 0; layer < layers; ++layer) {
      reader.visit(circle[pass % length], layer);
      EXPECT_GT(reader.forecast.likeness(), 0.9) << "length " << length;
      for (uint32_t expert = 0; expert < layers * experts; ++expert) {
        ASSERT_EQ(reader.forecast.visits_until(expert),
                  true_visits_until(circle, pass * layers + layer, expert))
            << "length " << length << ", layer " << layer << ", expert " << expert;
      }
    }
  }
}

TEST(ExpertForecast, RoutingThatRepeatsNothingIsLikeNoPast) {
  std::mt19937 random(1);
  Reader reader;
  for (int pass = 0; pass < 200; ++pass) {
    reader.read(random_token(random));
    ASSERT_LT(reader.forecast.likeness(), 0.3) << pass;
  }
}

TEST(ExpertForecast, BeforeTheFirstPassIsOverNothingIsForetold) {
  std::mt19937 random(2);
  Reader reader;
  reader.read(random_token(random));
  EXPECT_EQ(reader.forecast.likeness(), 0);
  for (uint32_t expert = 0; expert < layers * experts; ++expert) {
    EXPECT_EQ(reader.forecast.visits_until(expert), ExpertForecast::never);
  }
}

// A prompt uses nearly all experts, so it has those of every token: that is not likeness.
TEST(ExpertForecast, APromptIsLikeNoToken) {
  std::mt19937 random(3);
  Reader reader;
  for (int pass = 0; pass < 3; ++pass) reader.read(random_token(random, 90));
  for (int pass = 0; pass < 3; ++pass) reader.read(random_token(random));
  EXPECT_LT(reader.forecast.likeness(), 0.5);
}

// A phrase that was read once and comes back after others is known again within a few layers.
TEST(ExpertForecast, APhraseIsKnownAgain) {
  std::mt19937 random(4);
  std::vector<Token> phrase;
  for (int i = 0; i < 4; ++i) phrase.push_back(random_token(random));
  Reader reader;
  for (const Token& token : phrase) reader.read(token);
  for (int i = 0; i < 6; ++i) reader.read(random_token(random));
  reader.read(phrase[0]);
  reader.read(phrase[1]);
  reader.visit(phrase[2], 0);
  for (const uint32_t expert : phrase[2][1]) EXPECT_EQ(reader.forecast.visits_until(expert), 1u);
  for (const uint32_t expert : phrase[3][0]) {
    EXPECT_LE(reader.forecast.visits_until(expert), layers);
  }
}

}  // namespace
}  // namespace weightpager::policy
