// A network with measured times as a question of selection.
//
// Nodes are the network's input and its layers. Convolutions have the candidates of the profile.
// Layers that move or compare values pixel by pixel (routes, shortcuts, pools, upsampling) work in
// any layout (routes in blocks only where these are full). So such a layer only chooses a layout,
// and costs what it takes longer there than in its fastest layout. All other layers are in
// Darknet's layout. An edge costs the measured time of its change of layout.
//
// Two strategies, as in the paper:
//   - whole network: all packed weights stay in memory, and layers share one workspace;
//   - layer by layer: the workspace also has the packed weights of the layer that runs; they are
//     read from a disk before that. So Winograd's larger weights cost bytes and time.
// Activations are planned by themselves (runtime/memory) and are no part of either.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/profile.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

enum class SelectionScope { whole_network, layer_by_layer };

struct NetworkInstance {
  Instance instance;
  /// By node and candidate: "im2col nchw", "jit:avx2 nhwc-nChw8c"; "" where there is only one.
  std::vector<std::vector<std::string>> names;

  /// Node 0 is the input.
  static uint32_t node_of_layer(uint32_t layer) { return layer + 1; }
};

/// Whether a layer that is no convolution can take its inputs in this layout and give its output in
/// the same one.
bool keeps_layout(const network::Network& network, const network::Layer& layer, ops::Layout layout);

/// `profile` has everything that the network needs. Reads run at `read_bytes_per_s`, which has no
/// effect with SelectionScope::whole_network.
NetworkInstance make_instance(const network::Network& network, const Profile& profile,
                              SelectionScope strategy, double read_bytes_per_s);

/// What the candidates' names say, for one_primitive_everywhere(): "direct", "im2col", "im2row",
/// "kn2row", "im2col-strips", "im2row-strips" and "tiles" are weightpager's own. Of oneDNN's,
/// "winograd" is all with Winograd's algorithm, "gemm" what unfolds pictures itself, and "jit" all
/// others, which are direct. Layers that are not convolutions have "".
PrimitiveKinds primitive_kinds(const network::Network& network, const NetworkInstance& instance);

}  // namespace weightpager::plan
