// What was seen in runs is taken as it is, what was not is guessed by its kind; runs add up.
#include "runtime/plan/in_place.h"

#include <gtest/gtest.h>

#include "runtime/network/parser.h"
#include "runtime/plan/in_place_profiler.h"
#include "runtime/plan/profile_cache.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::plan {
namespace {

using network::Network;
using ops::Layout;

// The two convolutions are alike.
constexpr const char* small_network =
    "[net]\nheight=12\nwidth=12\nchannels=8\n"
    "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[maxpool]\nsize=2\nstride=2\n";

Network parse(const std::string& text) {
  auto network = network::parse_network(text, "small.cfg");
  EXPECT_TRUE(network) << network.error().message;
  return *std::move(network);
}

constexpr const char* convolution = "8x12x12 8 filters 3x3 stride 1 padding 1 groups 1";
constexpr const char* activation = "relu of 8x12x12";

class InPlace : public testing::Test {
 protected:
  InPlace() {
    LayoutChangeTimes changes;
    for (auto& row : changes) row.fill(5);
    alone_.changes["8x12x12"] = changes;
    alone_.changes["8x6x6"] = changes;
    alone_.convolutions[convolution] = {{{ops::in_tiles, Layout::nchw, Layout::nchw, 0, 0}, 100},
                                        {{"jit", Layout::nhwc, Layout::nhwc, 0, 0}, 30},
                                        {{"jit", Layout::nchw, Layout::nhwc, 0, 0}, 40},
                                        {{"other", Layout::nhwc, Layout::nhwc, 0, 0}, 50}};
    alone_.others[activation].fill(10);
    // As in Darknet's layout where there is no code for others.
    alone_.others[other_key(network_.layers[2])] = {20, 8, 20, 20};
  }

  static LayerChoice by(const std::string& name, Layout in, Layout out) { return {name, in, out}; }
  std::vector<LayerParts> parts(const std::vector<LayerChoice>& choices) const {
    return parts_of(network_, alone_, choices);
  }
  double convolution_ns(const Profile& profile, size_t candidate) const {
    return profile.convolutions.at(convolution)[candidate].time_ns;
  }
  const LayoutTimes& pool_ns(const Profile& profile) const {
    return profile.others.at(other_key(network_.layers[2]));
  }

  const Network network_ = parse(small_network);
  Profile alone_;
  const std::vector<LayerChoice> in_pixels_ = {by("jit", Layout::nchw, Layout::nhwc),
                                               by("jit", Layout::nhwc, Layout::nhwc),
                                               by("", Layout::nchw, Layout::nchw)};
};

TEST_F(InPlace, PartsAreWhatAProfileHasTimesOf) {
  const auto layers = parts(in_pixels_);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_TRUE(layers[0].changes.empty());
  EXPECT_EQ(layers[0].time_ns(), 40 + 10);
  EXPECT_EQ(layers[1].time_ns(), 30 + 10);
  ASSERT_EQ(layers[2].changes.size(), 1u);
  EXPECT_TRUE(layers[2].convolution.empty());
  EXPECT_EQ(layers[2].time_ns(), 5 + 20);
  EXPECT_EQ(time_ns_of(layers), 50 + 40 + 25);
}

TEST_F(InPlace, WhatWasSeenIsTakenAndOthersAreGuessedByTheirKind) {
  // By layer: convolution, change, other.
  const std::vector<RunTimes> took = {{80, 0, 15}, {90, 0, 25}, {0, 20, 30}};
  const auto layers = parts(in_pixels_);
  const InPlaceTimes seen = times_in_run(layers, took);
  EXPECT_TRUE(are_known(layers, seen));
  const Profile profile = in_place(alone_, seen);
  EXPECT_EQ(convolution_ns(profile, 2), 80);
  EXPECT_EQ(convolution_ns(profile, 1), 90);
  // Convolutions took 170 for 70; no other kind of them was seen.
  EXPECT_DOUBLE_EQ(convolution_ns(profile, 3), 50 * 170.0 / 70);
  EXPECT_DOUBLE_EQ(convolution_ns(profile, 0), 100 * 170.0 / 70);
  // The average of both, in every layout.
  for (const double time_ns : profile.others.at(activation)) EXPECT_EQ(time_ns, 20);
  EXPECT_EQ(profile.changes.at("8x12x12")[1][0], 20);
  EXPECT_DOUBLE_EQ(profile.changes.at("8x6x6")[0][2], 5 * 20.0 / 5);
  // Seen in Darknet's layout, which is that of others without code; not in nhwc.
  EXPECT_EQ(pool_ns(profile), (LayoutTimes{30, 8 * 30.0 / 20, 30, 30}));
  // A run of the same takes what it took.
  EXPECT_EQ(time_ns_of(parts_of(network_, profile, in_pixels_)), 80 + 20 + 90 + 20 + 20 + 30);
}

TEST_F(InPlace, KindsAreToldApart) {
  InPlaceTimes seen;
  seen[std::string(convolution) + " by jit nhwc-nhwc"] = 60;
  seen[std::string(convolution) + " by other nhwc-nhwc"] = 50;
  const Profile profile = in_place(alone_, seen);
  EXPECT_EQ(convolution_ns(profile, 2), 80);
  EXPECT_DOUBLE_EQ(convolution_ns(profile, 0), 100 * 110.0 / 80);
  // Of what is no convolution nothing was seen.
  EXPECT_DOUBLE_EQ(profile.changes.at("8x6x6")[0][2], 5 * 110.0 / 80);
}

TEST_F(InPlace, AnActivationAppliedWithASumIsNoPartOfItsOwn) {
  const auto layers = parts(std::vector<LayerChoice>(3));
  EXPECT_EQ(layers[0].time_ns(), 100);
  EXPECT_TRUE(layers[0].other.empty());
  const InPlaceTimes seen =
      times_in_run(layers, std::vector<RunTimes>{{220, 0, 0}, {240, 0, 0}, {0, 0, 44}});
  const Profile profile = in_place(alone_, seen);
  EXPECT_DOUBLE_EQ(convolution_ns(profile, 0), 230);
  EXPECT_FALSE(are_known(parts(in_pixels_), seen));
}

// Mish is computed after a convolution, and measured with it.
TEST_F(InPlace, WhatIsMeasuredTogetherIsDividedAsItTakesAlone) {
  std::string text = small_network;
  for (size_t at; (at = text.find("relu")) != std::string::npos;) text.replace(at, 4, "mish");
  const Network network = parse(text);
  const std::string mish = other_key(network.layers[0]);
  alone_.others[mish].fill(10);
  const auto layers = parts_of(network, alone_, std::vector<LayerChoice>(3));
  const InPlaceTimes seen =
      times_in_run(layers, std::vector<RunTimes>{{220, 0, 0}, {220, 0, 0}, {0, 0, 44}});
  const Profile profile = in_place(alone_, seen);
  EXPECT_DOUBLE_EQ(convolution_ns(profile, 0), 200);
  EXPECT_DOUBLE_EQ(profile.others.at(mish)[0], 20);
}

TEST_F(InPlace, WithoutAnythingSeenTimesAreThoseAlone) {
  EXPECT_EQ(profile_text(in_place(alone_, {})), profile_text(alone_));
}

TEST_F(InPlace, EachKindOfWorkHasItsOwnPace) {
  const InPlaceTimes then =
      times_in_run(parts(in_pixels_), std::vector<RunTimes>{{80, 0, 15}, {90, 0, 25}, {0, 20, 30}});
  // Convolutions take twice as long now, what waits for memory half as long; and one is new.
  InPlaceTimes now = times_in_run(parts(in_pixels_),
                                  std::vector<RunTimes>{{160, 0, 10}, {180, 0, 10}, {0, 20, 15}});
  const std::string new_part = std::string(convolution) + " by other nhwc-nhwc";
  now[new_part] = 300;
  InPlaceTimes expected = then;
  expected[new_part] = 150;
  EXPECT_EQ(at_pace_of(then, alone_, now), expected);
}

TEST(MiddleOf, LeavesOutAQuarterAtEitherEnd) {
  std::vector<Pass> passes;
  for (const double time_ns : {1.0, 1000.0, 20.0, 30.0}) passes.push_back({{time_ns, 0, 0}, {}});
  EXPECT_EQ(middle_of(passes)[0].convolutions_ns, 25);
  EXPECT_EQ(middle_of({{{7, 8, 9}}})[0].others_ns, 9);
}

TEST(InPlaceProfiler, RunsWhatIsNewAndKeepsIt) {
  const model::TemporaryDirectory scratch;
  const Network network = parse(small_network);
  const ProfilerOptions options{.threads = 1, .cache_path = scratch.path("profile.json")};
  const auto alone = profile_network(network, options);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_TRUE(alone->in_place.empty());
  const std::vector<LayerChoice> plain(3);
  int calls = 0;
  const Choose choose = [&](const Profile&) -> Result<Ways> {
    ++calls;
    return Ways{plain};
  };
  const auto profile = profile_in_place(network, *alone, options, Pace::as_first_measured, choose);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_LE(calls, 2);

  // Known from now on: what is kept comes back, and nothing is run.
  const auto again = profile_network(network, options);
  ASSERT_TRUE(again);
  const auto kept = again->in_place.find(network_key(network));
  ASSERT_NE(kept, again->in_place.end());
  EXPECT_TRUE(are_known(parts_of(network, *again, plain), kept->second));
  calls = 0;
  const auto same = profile_in_place(network, *again, options, Pace::as_first_measured, choose);
  ASSERT_TRUE(same);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(profile_text(*same), profile_text(*profile));
}

}  // namespace
}  // namespace weightpager::plan
