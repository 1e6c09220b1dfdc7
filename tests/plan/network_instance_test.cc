// Networks as questions of selection: what is a node, what an edge costs, what is charged by which
// strategy; and which of the described networks the exact planner takes.
#include "runtime/plan/network_instance.h"

#include <gtest/gtest.h>

#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {
namespace {

using network::Network;
using ops::Layout;

Network parse_instance(const std::string& text) {
  auto network = network::parse_network(text, "net.cfg");
  EXPECT_TRUE(network) << network.error().message;
  return *std::move(network);
}

// A slow candidate in Darknet's layout, and a fast one in blocks with larger weights.
Profile made_up_profile(const Network& network) {
  Profile profile;
  const auto add_changes = [&](const network::Shape& shape) {
    LayoutChangeTimes& times = profile.changes[picture_key(shape)];
    for (size_t from = 0; from < layout_count; ++from) {
      for (size_t to = 0; to < layout_count; ++to) times[from][to] = from == to ? 0 : 10;
    }
  };
  add_changes(network.input);
  for (const network::Layer& layer : network.layers) {
    add_changes(layer.output);
    profile.others[other_key(layer)].fill(5);
    if (!std::holds_alternative<network::Convolutional>(layer.operation)) continue;
    profile.convolutions[convolution_key(layer)] = {
        {{"plain", Layout::nchw, Layout::nchw, 64, layer.weights() * 4}, 100},
        {{"packed", Layout::nChw8c, Layout::nChw8c, 1000, layer.weights() * 16}, 30}};
  }
  return profile;
}

const char* const two_convolutions =
    "[net]\nheight=8\nwidth=8\nchannels=8\n"
    "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[maxpool]\nsize=2\nstride=2\n"
    "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[connected]\noutput=5\nactivation=linear\n";

constexpr uint64_t plain_bytes = 8 * 8 * 9 * 4;
constexpr uint64_t bias_bytes = 8 * 4;
constexpr uint64_t connected_bytes = 5 * 4 + 5 * 128 * 4;

TEST(NetworkInstance, WholeNetworksHoldTheirWeights) {
  const Network network = parse_instance(two_convolutions);
  const NetworkInstance made =
      make_instance(network, made_up_profile(network), SelectionScope::whole_network, 1e9);
  ASSERT_TRUE(check(made.instance)) << check(made.instance).error().message;
  const auto front = pareto_front(made.instance);
  ASSERT_TRUE(front) << front.error().message;
  // All plain; the second packed between two changes; the first, too; both, with the pool in
  // blocks.
  const Selection& least = front->front();
  EXPECT_EQ(least.held_bytes, 2 * (plain_bytes + bias_bytes) + connected_bytes);
  EXPECT_EQ(least.workspace_bytes, 64u);
  EXPECT_EQ(least.time_ns, 200);
  const Selection& fastest = front->back();
  EXPECT_EQ(fastest.held_bytes, 2 * (4 * plain_bytes + bias_bytes) + connected_bytes);
  EXPECT_EQ(fastest.workspace_bytes, 1000u);
  EXPECT_EQ(fastest.time_ns, 30 + 30 + 2 * 10);
  EXPECT_EQ(made.names[NetworkInstance::node_of_layer(2)][fastest.candidates[3]], "packed nChw8c");
  EXPECT_EQ(front->size(), 3u);
  EXPECT_EQ((*front)[1].time_ns, 100 + 30 + 2 * 10);
  const auto refused = plan::fastest(made.instance, 5000);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("layer 3 (connected, line 20) alone needs 2580 bytes"),
            std::string::npos)
      << refused.error().message;
}

TEST(NetworkInstance, LayerByLayerReadsThem) {
  const Network network = parse_instance(two_convolutions);
  const NetworkInstance made =
      make_instance(network, made_up_profile(network), SelectionScope::layer_by_layer, 1e9);
  const auto best = least_workspace(made.instance, 1e9);
  ASSERT_TRUE(best) << best.error().message;
  EXPECT_EQ(best->held_bytes, 0u);
  // The connected layer's; packed convolutions would need more.
  EXPECT_EQ(best->workspace_bytes, connected_bytes);
  // One byte takes a nanosecond.
  EXPECT_EQ(best->time_ns, 200 + 2 * (plain_bytes + bias_bytes) + connected_bytes);
}

TEST(NetworkInstance, InputsThatAreTakenTwiceAreChangedOnce) {
  const Network network = parse_instance(
      "[net]\nheight=8\nwidth=8\nchannels=8\n"
      "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=relu\n"
      "[route]\nlayers=-1,-1\n"
      "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n");
  Profile profile = made_up_profile(network);
  profile.convolutions.begin()->second.push_back(
      {{"wide", Layout::nChw8c, Layout::nChw16c, 0, 256}, 50});
  const NetworkInstance made = make_instance(network, profile, SelectionScope::whole_network, 1e9);
  ASSERT_TRUE(check(made.instance)) << check(made.instance).error().message;
  EXPECT_EQ(made.instance.edges.size(), 3u);
  // Eight channels do not fill a block of sixteen.
  EXPECT_EQ(made.names[2], (std::vector<std::string>{"nchw", "nChw8c"}));
  EXPECT_EQ(made.names[3].size(), 1u);  // half of the channels: only in Darknet's layout
}

// oneDNN may have no code for others in a layout that no convolution has.
TEST(NetworkInstance, OthersAreInLayoutsThatConvolutionsHave) {
  const Network network = parse_instance(two_convolutions);
  Profile profile = made_up_profile(network);
  const uint32_t pool = NetworkInstance::node_of_layer(1);
  using Names = std::vector<std::string>;
  const auto layouts_of_pool = [&] {
    return make_instance(network, profile, SelectionScope::whole_network, 1e9).names[pool];
  };
  EXPECT_EQ(layouts_of_pool(), (Names{"nchw", "nChw8c"}));
  profile.convolutions.begin()->second.push_back(
      {{"wide", Layout::nchw, Layout::nChw16c, 0, 256}, 50});
  EXPECT_EQ(layouts_of_pool(), (Names{"nchw", "nChw8c", "nChw16c"}));
  for (auto& [key, measured] : profile.convolutions) measured.resize(1);
  EXPECT_EQ(layouts_of_pool(), Names{"nchw"});
}

// A library's code may be fast in some layouts only.
TEST(NetworkInstance, ALayoutCostsWhatItIsSlowerThanTheFastest) {
  const Network network = parse_instance(two_convolutions);
  Profile profile = made_up_profile(network);
  LayoutTimes& pool = profile.others.at(other_key(network.layers[1]));
  pool[static_cast<size_t>(Layout::nchw)] = 300;
  pool[static_cast<size_t>(Layout::nChw8c)] = 50;
  const NetworkInstance made = make_instance(network, profile, SelectionScope::whole_network, 1e9);
  const auto& candidates = made.instance.nodes[NetworkInstance::node_of_layer(1)].candidates;
  ASSERT_EQ(candidates.size(), 2u);
  EXPECT_EQ(candidates[0].time_ns, 295);
  EXPECT_EQ(candidates[1].time_ns, 45);
}

// Also pyramids that lead up and down again, such as YOLOv4's.
TEST(NetworkInstance, AllNetworksCanBeReduced) {
  for (const std::string& name : network::described_networks()) {
    const Network network = parse_instance(*network::make_description(name));
    const NetworkInstance made =
        make_instance(network, made_up_profile(network), SelectionScope::whole_network, 1e9);
    EXPECT_TRUE(check(made.instance));
    EXPECT_TRUE(cuts_needed(made.instance)) << name;
  }
}

}  // namespace
}  // namespace weightpager::plan
