#include "runtime/network/resolution.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <variant>

#include "runtime/network/parser.h"

namespace weightpager::network {
namespace {

/// Whether a shortcut adds layers of equal height and width.
bool adds_equal_shapes(const Network& network, const Layer& layer) {
  const Shape& to = network.shape_of(layer.inputs[0]);
  const Shape& added = network.shape_of(layer.inputs[1]);
  return to.height == added.height && to.width == added.width;
}

std::string pixels(const Shape& shape) { return fmt::format("{} x {}", shape.width, shape.height); }

/// Why this layer is another one than in the network's own size, besides heights and widths.
std::optional<Error> difference(const Network& own, const Network& resized, uint32_t number) {
  const Layer& before = own.layers[number];
  const Layer& after = resized.layers[number];
  if (before.weights() != after.weights()) {
    return Error{fmt::format("expected {} weights, as for an input of {}, found {}",
                             before.weights(), pixels(own.input), after.weights()),
                 "this layer's weights are for pictures of one size only"};
  }
  if (std::holds_alternative<Shortcut>(before.operation) && adds_equal_shapes(own, before) &&
      !adds_equal_shapes(resized, after)) {
    return Error{fmt::format("expected layers of equal size to add, found {} and {}",
                             pixels(resized.shape_of(after.inputs[0])),
                             pixels(resized.shape_of(after.inputs[1])))};
  }
  return {};
}

Status compare_layers(const Network& own, const Network& resized) {
  for (uint32_t i = 0; i < own.layers.size(); ++i) {
    if (auto found = difference(own, resized, i))
      return tl::make_unexpected(about_layer(resized, i, std::move(*found)));
  }
  return {};
}

}  // namespace

Result<Network> network_at(std::string_view text, const std::string& name,
                           const Resolution& resolution) {
  auto own = parse_network(text, name);
  if (!own) return own;
  const std::string resized_name =
      fmt::format("{} for {} x {}", name, resolution.width, resolution.height);
  auto resized = parse_network(text, resized_name, resolution);
  Error error;
  if (resized) {
    Status same = compare_layers(*own, *resized);
    if (same) return resized;
    error = std::move(same.error());
    error.message = fmt::format("{}: {}", resized_name, error.message);
  } else {
    error = std::move(resized.error());
  }
  if (error.hint.empty()) {
    error.hint = fmt::format(
        "most networks take sizes that differ from their own, {}, by multiples of 32 or 64",
        pixels(own->input));
  }
  return tl::make_unexpected(std::move(error));
}

}  // namespace weightpager::network
