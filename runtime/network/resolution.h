// The same network for pictures of another size than its .cfg names.
//
// Problem. The input's size decides how much a network computes and which objects it finds, not
// what its weights are. Whoever compares sizes would edit the .cfg for each.
//
// Idea. The .cfg is read twice: with its own size, and with the other one. The other size fits if
// nothing changes but heights and widths: every layer has the same weights, and layers that were
// added to each other with equal shapes still have equal shapes. (Darknet adds other shapes, too,
// by leaving out rows; the network would compute something else.) Layers that are concatenated are
// checked by the parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::network {

/// The pixels of a network's input.
struct Resolution {
  uint32_t height = 0;
  uint32_t width = 0;
  bool operator==(const Resolution&) const = default;
};

/// `text` is a .cfg, and `name` is what errors call it. Fails if the network cannot take pictures
/// of that size with its weights; the error names the first layer that cannot.
Result<Network> network_at(std::string_view text, const std::string& name,
                           const Resolution& resolution);

}  // namespace weightpager::network
