// Descriptions (.cfg) of well-known networks, written from their structure.
//
// Trials and measurements of the runtime need the networks of the papers, without a download. The
// five of the Demand Layering paper have its input sizes; the others have those of Darknet's own
// descriptions or of their papers. GoogLeNet has batch normalization instead of local response
// normalization, as it is trained today. SqueezeNet is version 1.1.
// Two networks are PyTorch's (projected_resnets.h).
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::network {

/// "yolov3", "resnet152", …
std::vector<std::string> described_networks();

/// Returns the .cfg. An unknown name is an error, which lists the known ones.
Result<std::string> make_description(const std::string& name);

}  // namespace weightpager::network
