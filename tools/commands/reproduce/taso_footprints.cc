// Figure 2 of the TASO paper: what the largest layers of networks need, by primitive.
//
// Problem. The paper has the values in a picture alone, and does not say how they were counted.
//
// Idea. All of it follows from shapes. A convolution of C × H × W with M filters of K × K to
// M × H' × W' needs, beside input, weights and output,
//   direct   nothing;
//   im2col   the unfolded picture, C · K² · H' · W' numbers; im2row the same;
//   kn2row   one product, M · H · W numbers (stride 1 alone);
//   winograd F(4 × 4, 3 × 3): pictures in pieces of 6 × 6 for 4 × 4 pixels of the output,
//            36 · ⌈H'/4⌉ · ⌈W'/4⌉ · (C + M) numbers, and weights of 36 · C · M numbers instead of
//            9 · C · M (3 × 3 with stride 1 alone).
// A layer that a primitive cannot compute, and a 1 × 1 convolution with stride 1, which needs no
// unfolding, is computed directly.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "tools/commands/reproduce/taso_figures.h"
#include "tools/commands/reproduce/taso_networks.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::taso {
namespace {

/// A convolution's numbers, as the prose above calls them.
struct ConvolutionShape {
  uint64_t channels = 0;
  uint64_t pixels_in = 0;
  uint64_t filters = 0;
  uint64_t height_out = 0;
  uint64_t width_out = 0;
  uint64_t size = 0;
  uint64_t stride = 0;

  uint64_t pixels_out() const { return height_out * width_out; }
  bool is_matrix_product() const { return size == 1 && stride == 1; }
  uint64_t direct() const {
    return channels * pixels_in + filters * channels * size * size + filters * pixels_out();
  }
};

uint64_t direct_floats(const ConvolutionShape& it) { return it.direct(); }

uint64_t unfolded_floats(const ConvolutionShape& it) {
  if (it.is_matrix_product()) return it.direct();
  return it.direct() + it.channels * it.size * it.size * it.pixels_out();
}

uint64_t kn2row_floats(const ConvolutionShape& it) {
  if (it.stride != 1 || it.is_matrix_product()) return it.direct();
  return it.direct() + it.filters * it.pixels_in;
}

uint64_t winograd_floats(const ConvolutionShape& it) {
  if (it.size != 3 || it.stride != 1) return it.direct();
  constexpr uint64_t pixels_wide = 4;
  constexpr uint64_t values = (pixels_wide + 2) * (pixels_wide + 2);
  const auto pieces_along = [](uint64_t length) {
    return (length + pixels_wide - 1) / pixels_wide;
  };
  const uint64_t pieces = pieces_along(it.height_out) * pieces_along(it.width_out);
  const uint64_t more_weights = (values - it.size * it.size) * it.channels * it.filters;
  return it.direct() + more_weights + values * pieces * (it.channels + it.filters);
}

struct Footprint {
  const char* title;
  uint64_t (*floats)(const ConvolutionShape& shape);
};
constexpr std::array<Footprint, 4> footprints = {{{"direct", direct_floats},
                                                  {"im2row, im2col", unfolded_floats},
                                                  {"kn2row", kn2row_floats},
                                                  {"winograd", winograd_floats}}};

std::vector<ConvolutionShape> convolutions_of(const network::Network& network) {
  std::vector<ConvolutionShape> shapes;
  for (const network::Layer& layer : network.layers) {
    const auto* const it = std::get_if<network::Convolutional>(&layer.operation);
    if (it == nullptr) continue;
    shapes.push_back({.channels = layer.input.channels,
                      .pixels_in = uint64_t{layer.input.height} * layer.input.width,
                      .filters = layer.output.channels,
                      .height_out = layer.output.height,
                      .width_out = layer.output.width,
                      .size = it->size,
                      .stride = it->stride});
  }
  return shapes;
}

double largest_mib(const std::vector<ConvolutionShape>& shapes, const Footprint& footprint) {
  uint64_t most = 0;
  for (const ConvolutionShape& it : shapes) most = std::max(most, footprint.floats(it));
  return mebibytes(most * sizeof(float));
}

}  // namespace

Result<Reproduction> figure_2(const ReproduceSettings&) {
  Table table = {.title = "Memory of the largest layer, MiB",
                 .columns = {"network"},
                 .rows = {},
                 .note =
                     "From shapes: input, weights, output and workspace of the convolution "
                     "that needs most by that primitive. The paper's values are in its "
                     "picture alone; its text says that im2col needs an order of magnitude "
                     "more than direct."};
  BarChart chart = {.title = table.title, .y_label = "MiB", .series = {}, .groups = {}};
  for (const Footprint& it : footprints) {
    table.columns.emplace_back(it.title);
    chart.series.emplace_back(it.title);
  }
  table.columns.emplace_back("im2col / direct");
  for (const NamedNetwork& it : networks) {
    const auto text = network::make_description(it.name);
    if (!text) return tl::make_unexpected(text.error());
    const auto network = network::parse_network(*text, it.name);
    if (!network) return tl::make_unexpected(network.error());
    const auto shapes = convolutions_of(*network);
    std::vector<std::string> row = {it.title};
    BarGroup group = {.name = it.title, .bars = {}};
    for (const Footprint& footprint : footprints) {
      const double mib = largest_mib(shapes, footprint);
      row.push_back(fmt::format("{:.2f}", mib));
      group.bars.push_back(BarValue{mib});
    }
    row.push_back(fmt::format("{:.1f}", group.bars[1]->value / group.bars[0]->value));
    table.rows.push_back(std::move(row));
    chart.groups.push_back(std::move(group));
  }
  return Reproduction{
      .tables = {std::move(table)}, .pictures = {{"figure-2", svg_of(chart)}}, .lacks = {}};
}

}  // namespace weightpager::tools::taso
