// How each layer of a network is computed: what planning decides, and everything that runs, packs
// or lays out a planned network goes by.
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
  /// Of a convolution: the name of the candidate (ops::ConvolutionCandidate) that computes it from
  /// weights packed for it. "": what every network runs by, from plain weights, in tiles if need
  /// be; so are all other layers.
  std::string computed_by;
  ops::Layout layout_in = ops::Layout::nchw;
  ops::Layout layout_out = ops::Layout::nchw;

  bool has_plain_weights() const { return computed_by.empty(); }
  bool operator==(const LayerChoice&) const = default;
};

/// By layer; convolutions all by a candidate. `instance` is of make_instance with this network and
/// profile, `candidates` a selection's.
std::vector<LayerChoice> choices_of(const network::Network& network, const Profile& profile,
                                    const Instance& instance,
                                    const std::vector<uint32_t>& candidates);

/// In which a layer, or network::network_input, gives its picture.
ops::Layout layout_given(std::span<const LayerChoice> choices, uint32_t source);

/// By layer: what it needs of the activations' memory. `workspace_bytes`: by layer.
std::vector<memory::LayerMemory> memory_of(const network::Network& network,
                                           std::span<const LayerChoice> choices,
                                           std::span<const uint64_t> workspace_bytes);

}  // namespace weightpager::plan
