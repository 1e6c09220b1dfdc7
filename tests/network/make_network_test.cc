// Made networks: those of the papers, to the byte, with weights that keep activations in bounds.
#include "runtime/network/make_network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "runtime/network/make_description.h"
#include "runtime/network/packed_file.h"
#include "tests/network/network_files.h"

namespace weightpager::network {
namespace {

Network described(const std::string& name) {
  const Result<std::string> text = make_description(name);
  EXPECT_TRUE(text) << name;
  return text ? parsed(*text) : Network{};
}

/// As the paper prints sizes: MiB with one decimal.
std::string in_mib(uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1024 * 1024));
}

// --- the Demand Layering paper ------------------------------------------------------------------

struct TableRow {
  const char* name;
  const char* model_mib;
  size_t layers;
  const char* largest_layer_mib;
};

TEST(MadeNetworks, AreTableOneOfTheDemandLayeringPaper) {
  for (const TableRow& row : {TableRow{"yolov3", "236.5", 107, "18.0"},
                              {"yolov4", "245.8", 162, "18.0"},
                              {"yolov4-p6", "487.2", 305, "36.0"},
                              {"resnet152", "219.6", 206, "9.0"},
                              {"densenet201", "65.6", 306, "5.9"}}) {
    const Network network = described(row.name);
    EXPECT_EQ(in_mib(network.weights_file_bytes()), row.model_mib) << row.name;
    EXPECT_EQ(network.layers.size(), row.layers) << row.name;
    EXPECT_EQ(in_mib(network.largest_folded_bytes()), row.largest_layer_mib) << row.name;
  }
}

/// A line for each layer: kind, output, bytes in both kinds of file, and how convolutions are made.
std::string layer_lines(const Network& network) {
  std::string lines;
  for (const Layer& layer : network.layers) {
    lines += fmt::format("{} {} {} {} {} {}", section_name(layer.operation), layer.output.channels,
                         layer.output.height, layer.output.width, layer.folded_bytes(),
                         layer.raw_bytes());
    if (const auto* it = std::get_if<Convolutional>(&layer.operation))
      lines += fmt::format(" {} {} {} {} {}", layer.input.channels, it->size, it->stride,
                           it->is_batch_normalized ? 1 : 0, activation_name(it->activation));
    lines += "\n";
  }
  return lines;
}

struct KnownLayers {
  const char* name;
  uint64_t checksum;
};

// The checksums are of lines that were made from the layers of the paper's own .cfg files, as its
// repository had them in 2023 (AveesLab/demand-layering), in a table of this project's research.
TEST(MadeNetworks, HaveEveryLayerOfThePapersOwnDescriptions) {
  for (const KnownLayers& known : {KnownLayers{"yolov3", 0xe7809b0bbeae776d},
                                   {"yolov4", 0xc153a18b45cedabf},
                                   {"yolov4-p6", 0xfdf1dd7a80c30e3f},
                                   {"resnet152", 0x89615e23e8ae80fb},
                                   {"densenet201", 0x2af127403b909c33}}) {
    const std::string lines = layer_lines(described(known.name));
    EXPECT_EQ(checksum(std::as_bytes(std::span(lines))), known.checksum) << known.name;
  }
}

}  // namespace
}  // namespace weightpager::network
