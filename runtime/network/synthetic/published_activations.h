// Intermediate tensors of networks that Pisarchyk & Lee (2020) measured: 32-bit floats, batch 1,
// channels rounded up to 4. Made from the networks' published structure.
//
// They give the paper's bounds and its memory without sharing to the byte. Of Inception v3 the
// paper's graph is not known; "inception_v3" and "inception_v3_slim" are two readings of the
// published one. BlazeFace is not here: one convolution of the published network needs more than
// the paper's lower bound, so the paper's graph is another one.
#pragma once

#include <string>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::network {

/// `name`: "mobilenet_v1", "mobilenet_v2", "deeplab_v3", "inception_v3", "inception_v3_slim" or
/// "posenet".
std::vector<memory::TensorUsage> published_activations(const std::string& name);

}  // namespace weightpager::network
