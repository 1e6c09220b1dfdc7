// Writes random weights for any .cfg: make_weights CFG WEIGHTS. (`weightpager model make --net`
// does so for networks of its own.)
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <fstream>

#include "runtime/network/parser.h"
#include "runtime/network/synthetic/make_network.h"

namespace weightpager {
namespace {

int make_weights(const char* description, const char* path) {
  const auto network = network::read_network(description);
  if (!network) {
    fmt::print(stderr, "make_weights: {}\n", network.error().message);
    return 1;
  }
  std::ofstream file(path, std::ios::binary);
  // Version 0.2.5, and no pictures seen.
  const std::array<int32_t, 5> header = {0, 2, 5, 0, 0};
  file.write(reinterpret_cast<const char*>(header.data()), sizeof(header));
  const auto scales = network::weight_scales(*network);
  for (size_t number = 0; number < network->layers.size(); ++number) {
    const auto floats =
        network::make_raw_layer(network->layers[number], scales[number], number + 1);
    file.write(reinterpret_cast<const char*>(floats.data()),
               static_cast<std::streamsize>(floats.size() * sizeof(float)));
  }
  if (file.flush()) return 0;
  fmt::print(stderr, "make_weights: {} cannot be written\n", path);
  return 1;
}

}  // namespace
}  // namespace weightpager

int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: make_weights CFG WEIGHTS\n");
    return 2;
  }
  return weightpager::make_weights(arguments[1], arguments[2]);
}
