// Layers as people name them: "layers:0-3", "layers:0-3,7", "all", "none".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

/// The layers in ascending order, each once. Fails if one is not below `layers`; the message begins
/// with `key`.
Result<std::vector<uint32_t>> parse_layers(const std::string& text, uint32_t layers,
                                           const std::string& key);

}  // namespace weightpager::control
