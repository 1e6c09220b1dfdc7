// Small random networks with random profiles, and every way to compute each of them, evaluated from
// the network and the profile alone: nothing here asks the code that searches.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/network/parser.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

class SmallNetworks {
 public:
  explicit SmallNetworks(uint64_t seed) : random_(seed) {}

  uint64_t from_to(uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random_);
  }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return *(all.begin() + from_to(0, all.size() - 1));
  }

  /// Chains of convolutions with pools, shortcuts, routes and a connected layer among them.
  network::Network network(size_t layers) {
    // Some that are thrown together make no network: a shortcut between sizes, a pool of one pixel.
    while (true) {
      auto made = network::parse_network(text(layers), "small.cfg");
      if (made) return *std::move(made);
    }
  }

  /// Each convolution in tiles, and in up to two other ways.
  Profile profile(const network::Network& network) {
    Profile made;
    made.changes[picture_key(network.input)] = changes();
    for (const network::Layer& layer : network.layers) {
      made.changes[picture_key(layer.output)] = changes();
      const std::string other = other_key(layer);
      if (!other.empty()) {
        for (double& it : made.others[other]) it = time_ns(2'000, 40'000);
      }
      if (!std::holds_alternative<network::Convolutional>(layer.operation)) continue;
      std::vector<MeasuredCandidate>& ways = made.convolutions[convolution_key(layer)];
      if (!ways.empty()) continue;
      const uint64_t bytes = layer.weights() * sizeof(float);
      ways.push_back({{std::string(ops::in_tiles), ops::Layout::nchw, ops::Layout::nchw,
                       64 * from_to(0, 2000), bytes},
                      time_ns(20'000, 400'000)});
      for (uint64_t more = from_to(0, 2); more > 0; --more) {
        const uint64_t workspace_bytes = from_to(0, 1) * 64 * from_to(0, 2000);
        const uint64_t packed_bytes = bytes * one_of({4, 4, 7, 16}) / 4;
        ways.push_back(
            {{fmt::format("way {}", more), layout(), layout(), workspace_bytes, packed_bytes},
             time_ns(10'000, 300'000)});
      }
    }
    return made;
  }

 private:
  std::string text(size_t layers) {
    std::string text = fmt::format("[net]\nheight={0}\nwidth={0}\nchannels={1}\n",
                                   one_of({8, 12, 16, 24}), one_of({3, 16}));
    for (size_t i = 0; i < layers; ++i) {
      const uint64_t kind = i == 0 ? 0 : from_to(0, 9);
      if (kind == 9 && i + 1 == layers) {
        text += "[connected]\noutput=48\nactivation=linear\n";
      } else if (kind == 8 && i > 1) {
        text += "[route]\nlayers=-1,-2\n";
      } else if (kind == 7 && i > 1) {
        text += "[shortcut]\nfrom=-2\nactivation=linear\n";
      } else if (kind == 6) {
        text += "[maxpool]\nsize=2\nstride=2\n";
      } else {
        text +=
            fmt::format("[convolutional]\nfilters={}\nsize={}\nstride={}\npad=1\nactivation={}\n",
                        one_of({16, 32, 48}), one_of({1, 3}), one_of({1, 1, 1, 2}),
                        one_of({"relu", "linear", "leaky"}));
      }
    }
    return text;
  }

  // No whole number: planners may round.
  double time_ns(uint64_t least, uint64_t most) {
    return static_cast<double>(from_to(least, most)) + 0.25;
  }
  ops::Layout layout() { return one_of({ops::Layout::nchw, ops::Layout::nhwc, ops::Layout::nhwc}); }
  LayoutChangeTimes changes() {
    LayoutChangeTimes times{};
    for (size_t from = 0; from < times.size(); ++from) {
      for (size_t to = 0; to < times.size(); ++to) {
        if (from != to) times[from][to] = time_ns(1'000, 60'000);
      }
    }
    return times;
  }

  std::mt19937_64 random_;
};

/// One way to compute a layer.
struct Way {
  std::string computed_by;  // "": in tiles, or there is no choice
  ops::Layout layout_in = ops::Layout::nchw;
  ops::Layout layout_out = ops::Layout::nchw;
  /// Of a convolution alone; of others what they take longer than in their fastest layout.
  double choice_ns = 0;
  /// With all else that the layer takes.
  double whole_ns = 0;
  uint64_t weight_bytes = 0;  // without biases
  uint64_t bias_bytes = 0;
  uint64_t workspace_bytes = 0;
};

using Mixture = std::vector<const Way*>;  // by layer

class Mixtures {
 public:
  Mixtures(const network::Network& network, const Profile& profile)
      : network_(network), profile_(profile) {
    for (const network::Layer& layer : network_.layers) ways_.push_back(ways_of(layer));
  }

  void for_each(const std::function<void(const Mixture&)>& visit) const {
    Mixture mixture(ways_.size());
    choose(0, mixture, visit);
  }

  /// Of what a layer takes in, each tensor once.
  double changes_ns(const Mixture& mixture, uint32_t layer) const {
    return sum_of_changes(mixture, layer, [](double ns) { return ns; });
  }
  /// The same with each in whole nanoseconds.
  double whole_changes_ns(const Mixture& mixture, uint32_t layer) const {
    return sum_of_changes(mixture, layer, [](double ns) { return std::floor(ns); });
  }

 private:
  template <typename Rounded>
  double sum_of_changes(const Mixture& mixture, uint32_t layer, Rounded rounded) const {
    double sum_ns = 0;
    const std::vector<uint32_t>& inputs = network_.layers[layer].inputs;
    for (const uint32_t source : std::set<uint32_t>(inputs.begin(), inputs.end())) {
      const ops::Layout given =
          source == network::network_input ? ops::Layout::nchw : mixture[source]->layout_out;
      const LayoutChangeTimes& times = profile_.changes.at(picture_key(network_.shape_of(source)));
      const auto wanted = static_cast<size_t>(mixture[layer]->layout_in);
      sum_ns += rounded(times[static_cast<size_t>(given)][wanted]);
    }
    return sum_ns;
  }

  void choose(size_t layer, Mixture& mixture,
              const std::function<void(const Mixture&)>& visit) const {
    if (layer == mixture.size()) return visit(mixture);
    for (const Way& way : ways_[layer]) {
      mixture[layer] = &way;
      choose(layer + 1, mixture, visit);
    }
  }

  // Those of the small networks above; layouts are plain, or pixel by pixel.
  bool works_pixel_by_pixel(const network::Layer& layer) const {
    if (std::holds_alternative<network::Shortcut>(layer.operation)) {
      return network_.shape_of(layer.inputs[0]) == layer.output &&
             network_.shape_of(layer.inputs[1]) == layer.output;
    }
    return std::holds_alternative<network::MaxPool>(layer.operation) ||
           std::holds_alternative<network::Route>(layer.operation);
  }

  bool some_convolution_works_pixel_by_pixel() const {
    return std::ranges::any_of(profile_.convolutions, [](const auto& it) {
      return std::ranges::any_of(it.second, [](const MeasuredCandidate& way) {
        return way.traits.layout_in == ops::Layout::nhwc ||
               way.traits.layout_out == ops::Layout::nhwc;
      });
    });
  }

  std::vector<Way> ways_of(const network::Layer& layer) const {
    const std::string key = other_key(layer);
    const LayoutTimes times = key.empty() ? LayoutTimes{} : profile_.others.at(key);
    const double least_ns = *std::ranges::min_element(times);
    const uint64_t bias_bytes = layer.channels_with_bias() * sizeof(float);
    std::vector<Way> ways;
    if (std::holds_alternative<network::Convolutional>(layer.operation)) {
      for (const auto& [it, time_ns] : profile_.convolutions.at(convolution_key(layer))) {
        const bool is_in_tiles = it.name == ops::in_tiles;
        // Convolutions in tiles apply these activations, too.
        const double whole_ns = time_ns + (is_in_tiles ? 0 : least_ns);
        ways.push_back({is_in_tiles ? "" : it.name, it.layout_in, it.layout_out, time_ns, whole_ns,
                        it.packed_bytes, bias_bytes, it.workspace_bytes});
      }
    } else if (layer.weights() > 0 || !works_pixel_by_pixel(layer)) {
      ways.push_back({.whole_ns = least_ns,
                      .weight_bytes = layer.weights() * sizeof(float),
                      .bias_bytes = bias_bytes});
      if (layer.weights() == 0) return ways;
      ways.back().workspace_bytes = ops::Convolution(layer, 1).scratch_floats() * sizeof(float);
    } else {
      std::vector<ops::Layout> layouts = {ops::Layout::nchw};
      if (some_convolution_works_pixel_by_pixel()) layouts.push_back(ops::Layout::nhwc);
      for (const ops::Layout layout : layouts) {
        const double time_ns = times[static_cast<size_t>(layout)];
        ways.push_back({.layout_in = layout,
                        .layout_out = layout,
                        .choice_ns = time_ns - least_ns,
                        .whole_ns = time_ns});
      }
    }
    return ways;
  }

  const network::Network& network_;
  const Profile& profile_;
  std::vector<std::vector<Way>> ways_;  // by layer
};

}  // namespace weightpager::plan
