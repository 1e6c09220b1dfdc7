// Descriptions (.cfg) of well-known networks, written from their structure.
//
// Whoever tries or measures the runtime needs the networks that papers are about, without
// downloading anything. The five of the Demand Layering paper have its input sizes, the others
// those of Darknet's own descriptions or of their papers. GoogLeNet has batch normalization instead
// of local response normalization, as it is trained today; SqueezeNet is version 1.1.
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::network {

/// "yolov3", "resnet152", …
std::vector<std::string> described_networks();

/// The .cfg; an unknown name is an error that lists the known ones.
Result<std::string> make_description(const std::string& name);

}  // namespace weightpager::network
