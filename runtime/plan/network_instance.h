// A network with measured times as a question of selection.
//
// Nodes are the network's input and its layers. Convolutions have the candidates of the profile.
// What moves or compares values pixel by pixel (routes, shortcuts, pools, upsampling) works in any
// layout (routes in blocks only where these are full), and so only chooses one, for what it takes
// longer in that than in its fastest; the rest is in Darknet's. Edges cost what a change of layout
// was measured to take.
//
// Two strategies, as in the paper:
//   - whole network: all packed weights stay in memory, layers share one workspace;
//   - layer by layer: the packed weights of the layer that runs are in the workspace, too, and are
//     read from a disk before. So what Winograd's packing adds is charged in bytes and in time.
// Activations are planned by themselves (runtime/memory) and are no part of either.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/profile.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

enum class SelectionScope { whole_network, layer_by_layer };

struct NetworkInstance {
  Instance instance;
  /// By node and candidate: "im2col nchw", "jit:avx2 nhwc-nChw8c"; "" where there is one way only.
  std::vector<std::vector<std::string>> names;

  /// Node 0 is the input.
  static uint32_t node_of_layer(uint32_t layer) { return layer + 1; }
};

/// Whether a layer that is no convolution can take in this layout and give it out unchanged.
bool keeps_layout(const network::Network& network, const network::Layer& layer, ops::Layout layout);

/// `profile` has everything that the network needs. Reads take their bytes at `read_bytes_per_s`;
/// of no interest for the whole network.
NetworkInstance make_instance(const network::Network& network, const Profile& profile,
                              SelectionScope strategy, double read_bytes_per_s);

}  // namespace weightpager::plan
