// How each layer of a network is computed. Planning makes these choices; running, packing and
// laying out a planned network follow them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/layout.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

struct LayerChoice {
  /// The name of the candidate (ops::ConvolutionCandidate) that computes this convolution from
  /// weights packed for it. "" for the code that runs unplanned networks, from plain weights and in
  /// tiles if need be; also for all layers that are not convolutions.
  std::string computed_by;
  ops::Layout layout_in = ops::Layout::nchw;
  ops::Layout layout_out = ops::Layout::nchw;

  bool has_plain_weights() const { return computed_by.empty(); }
  bool operator==(const LayerChoice&) const = default;
};

/// By layer; each convolution is computed by a candidate. `instance` comes from make_instance with
/// this network and profile, and `candidates` is a selection's.
std::vector<LayerChoice> choices_of(const network::Network& network, const Profile& profile,
                                    const Instance& instance,
                                    const std::vector<uint32_t>& candidates);

/// The layout in which a layer, or network::network_input, gives its picture.
ops::Layout layout_given(std::span<const LayerChoice> choices, uint32_t source);

/// The memory that each layer needs in the arena, by layer; so is `workspace_bytes`.
std::vector<memory::LayerMemory> memory_of(const network::Network& network,
                                           std::span<const LayerChoice> choices,
                                           std::span<const uint64_t> workspace_bytes);

}  // namespace weightpager::plan
