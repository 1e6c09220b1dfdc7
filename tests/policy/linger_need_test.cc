// The ring is as long as saves the most reads beyond the pins that it takes.
#include "pager/policy/linger_need.h"

#include <gtest/gtest.h>

namespace weightpager::policy::linger_need_test {
namespace {

constexpr uint32_t ring = 16;
constexpr uint32_t saved_min = 2;

LingerNeed noted(uint32_t touches, uint32_t linger) {
  LingerNeed need;
  for (uint32_t i = 0; i < touches; ++i) need.note(linger);
  return need;
}

// A ring of 20 takes four pins.
TEST(LingerNeed, ALongerRingPaysIfItSavesMoreReadsThanItTakesPins) {
  EXPECT_EQ(noted(5, 10).that_pays(ring, saved_min), 0u);
  EXPECT_EQ(noted(6, 10).that_pays(ring, saved_min), 10u);
  EXPECT_EQ(noted(0, 10).that_pays(ring, saved_min), 0u);
}

// It was gone for another reason.
TEST(LingerNeed, WhatLingersLongEnoughAlreadyAsksForNothing) {
  EXPECT_EQ(noted(60, ring / 2).that_pays(ring, saved_min), 0u);
}

TEST(LingerNeed, WhatFewTouchesWantIsNotTakenPinsFor) {
  LingerNeed need = noted(20, 10);
  for (int i = 0; i < 3; ++i) need.note(40);
  EXPECT_EQ(need.that_pays(ring, saved_min), 10u);
  for (int i = 0; i < 62; ++i) need.note(40);
  EXPECT_EQ(need.that_pays(ring, saved_min), 40u);
}

TEST(LingerNeed, OfManyTouchesTheLastOnesStandForAll) {
  LingerNeed need = noted(100, 60);
  EXPECT_EQ(need.that_pays(ring, saved_min), 0u);  // 104 pins
  for (int i = 0; i < 64; ++i) need.note(50);
  EXPECT_EQ(need.that_pays(ring, saved_min), 50u);  // 164 reads, 84 pins
}

TEST(LingerNeed, OnePassIsEnoughIfItIsToSaveMany) {
  LingerNeed need = noted(12, 10);
  need.end_pass(ring, saved_min);
  EXPECT_EQ(need.lasting(), 10u);
  need.end_pass(ring, saved_min);
  EXPECT_EQ(need.lasting(), 0u);
}

TEST(LingerNeed, OtherwiseTwoPassesHaveToWantIt) {
  LingerNeed need = noted(11, 10);
  need.end_pass(ring, saved_min);
  EXPECT_EQ(need.lasting(), 0u);
  EXPECT_EQ(need.count(), 0u);
  need.end_pass(ring, saved_min);
  EXPECT_EQ(need.lasting(), 0u);
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < 11; ++i) need.note(11);
    need.end_pass(ring, saved_min);
  }
  EXPECT_EQ(need.lasting(), 11u);
}

}  // namespace
}  // namespace weightpager::policy::linger_need_test
