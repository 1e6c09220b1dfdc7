// A profile without measuring: the candidates that there are on this machine, at speeds that such
// code has, the same on each run. Times differ between layers as they do: no two kinds of code are
// equally good at all shapes.
//
// What a machine has decides how much there is to choose: without AVX-512 nearly all candidates'
// weights are as large as plain ones. with_avx512() has what oneDNN has with it, so that a planner
// has as much to do on every machine. Only to plan with: it may not run here.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "pager/base/units.h"
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
    LayoutChangeTimes times{};
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
      profile.others[other].fill(5'000 + static_cast<double>(layer.output.size_bytes()) / 16);
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

/// As oneDNN has them, in names, layouts and bytes; `layer` is convolutional.
inline std::vector<ops::ConvolutionCandidate::Traits> avx512_candidates(
    const network::Layer& layer) {
  const auto& it = std::get<network::Convolutional>(layer.operation);
  if (it.groups != 1) return {};
  const uint64_t channels_in = round_up(layer.input.channels, 16);
  const uint64_t channels_out = round_up(it.filters, 16);
  const uint64_t plain_bytes = channels_in * channels_out * it.size * it.size * sizeof(float);
  constexpr ops::Layout pixels = ops::Layout::nhwc;
  constexpr ops::Layout blocks = ops::Layout::nChw16c;
  std::vector<ops::ConvolutionCandidate::Traits> all = {
      {"jit:avx512_core", pixels, pixels, 0, plain_bytes},
      {"jit:avx512_core", blocks, blocks, 0, plain_bytes},
      {"brgconv:avx512_core", pixels, pixels, 0, plain_bytes}};
  if (it.size != 3 || it.stride != 1) return all;
  // Weights and pictures in pieces of 4 × 4 for 2 × 2 pixels, of 6 × 6 for 4 × 4.
  for (const uint64_t pixels_wide : {uint64_t{2}, uint64_t{4}}) {
    const uint64_t values = (pixels_wide + 2) * (pixels_wide + 2);
    const auto pieces_along = [&](uint64_t length) {
      return (length + pixels_wide - 1) / pixels_wide;
    };
    const uint64_t pieces = pieces_along(layer.output.height) * pieces_along(layer.output.width);
    const char* const name =
        pixels_wide == 2 ? "jit_fp32_wino_2x3:avx512_core" : "jit_wino_4x3:avx512_core";
    all.push_back({name, blocks, blocks,
                   values * pieces * (channels_in + channels_out) * sizeof(float),
                   values * channels_in * channels_out * sizeof(float)});
  }
  return all;
}

/// With those of AVX-512, made up on machines that have it, too: so that there is the same to plan
/// everywhere.
inline Profile with_avx512(const network::Network& network, Profile profile) {
  for (auto& [key, measured] : profile.convolutions) {
    std::erase_if(measured, [](const auto& it) {
      return it.traits.name.find("avx512") != std::string::npos;
    });
  }
  std::set<std::string> done;
  for (const network::Layer& layer : network.layers) {
    if (!std::holds_alternative<network::Convolutional>(layer.operation)) continue;
    const std::string key = convolution_key(layer);
    if (!done.insert(key).second) continue;
    for (const auto& traits : avx512_candidates(layer)) {
      profile.convolutions.at(key).push_back({traits, plausible_time_ns(layer, traits.name)});
    }
  }
  return profile;
}

}  // namespace weightpager::plan
