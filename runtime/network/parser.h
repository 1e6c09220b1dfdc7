// Reads Darknet's network descriptions (.cfg).
//
// A missing key has the value that Darknet assumes for it. Where Darknet would go on with a guess
// or read memory that is not its own, the file is refused, and the error names the line: unknown
// sections and keys, kinds of layers that are not computed here, layers that refer to later ones,
// shapes that do not fit. The text may come from anyone: reading it takes memory in proportion to
// its length, and no product of its numbers overflows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/network/resolution.h"

namespace weightpager::network {

/// `name` is what errors call the text. With `resolution`, the network is for pictures of that size
/// and not of the size that the text has; whether that makes sense, resolution.h says.
Result<Network> parse_network(std::string_view text, const std::string& name,
                              const std::optional<Resolution>& resolution = {});

/// With `resolution`: as `network_at` makes it.
Result<Network> read_network(const std::string& path,
                             const std::optional<Resolution>& resolution = {});

}  // namespace weightpager::network
