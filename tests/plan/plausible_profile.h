// A profile without measuring: the candidates that there are on this machine, at speeds that such
// code has, the same on each run. Times differ between layers as they do: no two kinds of code are
// equally good at all shapes.
#pragma once

#include <functional>
#include <string>

#include "runtime/infer/window_use.h"
#include "runtime/plan/profile.h"
#include "runtime/plan/profiler.h"

namespace weightpager::plan {

inline double plausible_time_ns(const network::Layer& layer, const std::string& name) {
  double operations_per_ns = 20;
  if (name.find("jit") != std::string::npos) operations_per_ns = 60;
  if (name.find("brg") != std::string::npos) operations_per_ns = 70;
  if (name.find("wino_2x3") != std::string::npos) operations_per_ns = 90;
  if (name.find("wino_4x3") != std::string::npos) operations_per_ns = 140;
  if (name.find("im2") != std::string::npos || name == "tiles") operations_per_ns = 55;
  const size_t hash = std::hash<std::string>{}(convolution_key(layer) + name);
  const double factor = 0.7 + 0.6 * static_cast<double>(hash % 1000) / 1000;
  return 10'000 + static_cast<double>(infer::operations(layer)) / (operations_per_ns * factor);
}

inline Profile plausible_profile(const network::Network& network, int threads) {
  Profile profile;
  const auto changes_of = [&](const network::Shape& shape) {
    ChangeTimes times{};
    for (size_t from = 0; from < times.size(); ++from) {
      for (size_t to = 0; to < times.size(); ++to) {
        if (from != to) times[from][to] = 5'000 + static_cast<double>(shape.size_bytes()) / 8;
      }
    }
    return times;
  };
  profile.changes[picture_key(network.input)] = changes_of(network.input);
  for (const network::Layer& layer : network.layers) {
    profile.changes[picture_key(layer.output)] = changes_of(layer.output);
    const std::string other = other_key(layer);
    if (!other.empty()) {
      profile.others[other] = 5'000 + static_cast<double>(layer.output.size_bytes()) / 16;
    }
    if (!std::holds_alternative<network::Convolutional>(layer.operation)) continue;
    const auto [measured, is_new] = profile.convolutions.try_emplace(convolution_key(layer));
    if (!is_new) continue;
    for (const auto& it : ops::convolution_candidates(layer, threads)) {
      measured->second.push_back({it->traits(), plausible_time_ns(layer, it->traits().name)});
    }
  }
  return profile;
}

}  // namespace weightpager::plan
