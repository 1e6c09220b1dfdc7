// From sections to layers: see parser.h.
//
// One function for each kind of section reads its options, in the order of Darknet's own parser,
// and sets the layer's output. All numbers are bounded where they are read (sections.h), so only
// sums and products are left to check.
#include "runtime/network/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "pager/model/header_reader.h"
#include "runtime/network/sections.h"

namespace weightpager::network {
namespace {

constexpr uint64_t text_bytes_max = 16 * MiB;
constexpr uint32_t layers_max = 1 << 16;
/// The elements of one image: 256 GiB as floats.
constexpr uint64_t elements_max = uint64_t{1} << 36;
/// The weights of one layer: 4 TiB as floats.
constexpr uint64_t weights_max = uint64_t{1} << 40;
/// Larger filters than any network has.
constexpr uint32_t size_max = 1 << 10;

std::string describe(const Shape& shape) {
  return fmt::format("{} channels of {} x {}", shape.channels, shape.width, shape.height);
}

bool is_in_bounds(const Shape& shape) {
  return shape.channels <= dimension_max && shape.height <= dimension_max &&
         shape.width <= dimension_max && shape.elements() <= elements_max;
}

/// The number of steps of a window of `size`; 0 if it does not fit.
uint32_t steps(uint64_t extent, uint32_t size, uint32_t stride) {
  return extent < size ? 0 : static_cast<uint32_t>((extent - size) / stride + 1);
}

/// Layers as a .cfg numbers them: from the start, or, if negative, back from the layer itself.
std::vector<uint32_t> layer_numbers(SectionReader& section, std::string_view key,
                                    const Network& before) {
  const auto itself = static_cast<int32_t>(before.layers.size());
  if (itself == 0) section.refuse("", "expected a layer before this one");
  std::vector<uint32_t> layers;
  for (const int32_t number : section.numbers(key, -itself, itself - 1))
    layers.push_back(static_cast<uint32_t>(number < 0 ? itself + number : number));
  if (layers.empty()) section.refuse(key, fmt::format("expected {}= with earlier layers", key));
  return layers;
}

// --- one function for each kind of section ------------------------------------------------------
//
// Each function is called with the layer before as the layer's input.

void parse_convolutional(SectionReader& section, const Network& /*before*/, Layer& layer) {
  Convolutional it;
  it.filters = section.number("filters", 1, 1);
  it.groups = section.number("groups", 1, 1);
  it.size = section.number("size", 1, 1, size_max);
  it.stride = section.number("stride", 1, 1);
  section.expect({"stride_x", "stride_y"}, it.stride);
  const bool is_padded = section.flag("pad");
  const uint32_t padding = section.number("padding", 0, 0, size_max);
  it.padding = is_padded ? it.size / 2 : padding;
  it.activation = section.activation(Activation::logistic);
  it.is_batch_normalized = section.number("batch_normalize", 0, 0, 1) == 1;
  section.expect({"dilation"}, 1);
  section.expect(
      {"antialiasing", "binary", "xnor", "bin_output", "cbn", "flipped", "sway", "rotate",
       "stretch", "stretch_sway", "assisted_excitation", "reverse", "coordconv"},
      0);
  section.ignore("dot angle grad_centr stream wait_stream");
  layer.operation = it;

  const Shape& input = layer.input;
  if (input.channels % it.groups != 0 || it.filters % it.groups != 0)
    return section.refuse("groups", fmt::format("expected groups that divide {} channels and {} "
                                                "filters, found {}",
                                                input.channels, it.filters, it.groups));
  layer.output = {it.filters, steps(input.height + 2 * it.padding, it.size, it.stride),
                  steps(input.width + 2 * it.padding, it.size, it.stride)};
}

void parse_connected(SectionReader& section, const Network& /*before*/, Layer& layer) {
  Connected it;
  it.outputs = section.number("output", 1, 1);
  it.activation = section.activation(Activation::logistic);
  it.is_batch_normalized = section.number("batch_normalize", 0, 0, 1) == 1;
  layer.operation = it;
  layer.output = {it.outputs, 1, 1};
}

void parse_maxpool(SectionReader& section, const Network& /*before*/, Layer& layer) {
  MaxPool it;
  it.stride = section.number("stride", 1, 1);
  section.expect({"stride_x", "stride_y"}, it.stride);
  it.size = section.number("size", std::min(it.stride, size_max), 1, size_max);
  it.padding = section.number("padding", it.size - 1, 0, 2 * size_max);
  section.expect({"maxpool_depth", "antialiasing", "maxpool_zero_nonmax"}, 0);
  section.expect({"out_channels"}, 1);
  layer.operation = it;

  // With more padding, some windows would have nothing in them but padding.
  if ((it.padding + 1) / 2 >= it.size)
    return section.refuse("padding", fmt::format("expected padding of less than twice the size of "
                                                 "{}, found {}",
                                                 it.size, it.padding));
  const Shape& input = layer.input;
  layer.output = {input.channels, steps(input.height + it.padding, it.size, it.stride),
                  steps(input.width + it.padding, it.size, it.stride)};
}

void parse_avgpool(SectionReader& /*section*/, const Network& /*before*/, Layer& layer) {
  layer.operation = AveragePool{};
  layer.output = {layer.input.channels, 1, 1};
}

void parse_dropout(SectionReader& section, const Network& /*before*/, Layer& layer) {
  section.ignore("probability dropblock dropblock_size_rel dropblock_size_abs");
  layer.operation = Dropout{};
  layer.output = layer.input;
}

void parse_route(SectionReader& section, const Network& before, Layer& layer) {
  Route it;
  layer.inputs = layer_numbers(section, "layers", before);
  it.groups = section.number("groups", 1, 1);
  it.group = section.number("group_id", 0, 0, it.groups - 1);
  section.ignore("stream wait_stream");
  layer.operation = it;
  if (layer.inputs.empty()) return;

  layer.input = before.layers[layer.inputs.front()].output;
  uint64_t channels = 0;
  for (const uint32_t number : layer.inputs) {
    const Shape& shape = before.layers[number].output;
    if (shape.height != layer.input.height || shape.width != layer.input.width)
      return section.refuse(
          "layers", fmt::format("expected layers of {} x {}, as layer {} is, found layer {} of "
                                "{} x {}",
                                layer.input.width, layer.input.height, layer.inputs.front(), number,
                                shape.width, shape.height));
    if (shape.channels % it.groups != 0)
      return section.refuse("groups",
                            fmt::format("expected groups that divide {} channels of layer {}, "
                                        "found {}",
                                        shape.channels, number, it.groups));
    channels += shape.channels / it.groups;
    if (channels > dimension_max) break;
  }
  layer.output = {static_cast<uint32_t>(std::min<uint64_t>(channels, dimension_max + 1)),
                  layer.input.height, layer.input.width};
}

void parse_shortcut(SectionReader& section, const Network& before, Layer& layer) {
  Shortcut it;
  const std::vector<uint32_t> from = layer_numbers(section, "from", before);
  it.activation = section.activation(Activation::linear);
  section.expect({"alpha", "beta"}, 1);
  section.choice("weights_type", {"none"});
  section.choice("weights_normalization", {"none"});
  layer.operation = it;
  layer.output = layer.input;
  if (from.empty()) return;
  if (from.size() > 1)
    return section.refuse("from", fmt::format("expected one layer to add, found {}", from.size()));

  layer.inputs.push_back(from.front());
  const Shape& to = layer.input;
  const Shape& added = before.layers[from.front()].output;
  // Darknet's own condition: rows and columns are skipped or spread by the same factor.
  if (added.width / to.width != added.height / to.height ||
      to.width / added.width != to.height / added.height)
    section.refuse("from", fmt::format("expected shapes of the same proportions, found layer {} "
                                       "of {} to be added to {}",
                                       from.front(), describe(added), describe(to)));
}

void parse_upsample(SectionReader& section, const Network& /*before*/, Layer& layer) {
  Upsample it;
  it.stride = section.number("stride", 2, 1, size_max);
  it.scale = static_cast<float>(section.real("scale", 1));
  layer.operation = it;
  const uint64_t height = uint64_t{layer.input.height} * it.stride;
  const uint64_t width = uint64_t{layer.input.width} * it.stride;
  layer.output = {layer.input.channels, static_cast<uint32_t>(height),
                  static_cast<uint32_t>(width)};
}

/// The anchors that this layer has; all of them if the section names none.
std::vector<uint32_t> parse_mask(SectionReader& section, uint32_t anchors) {
  const auto last = static_cast<int32_t>(anchors) - 1;
  const std::vector<int32_t> chosen = section.numbers("mask", 0, last);
  std::vector<uint32_t> mask(chosen.begin(), chosen.end());
  for (uint32_t i = 0; chosen.empty() && i < anchors; ++i) mask.push_back(i);
  return mask;
}

void parse_yolo(SectionReader& section, const Network& /*before*/, Layer& layer) {
  Yolo it;
  it.classes = section.number("classes", 20, 1);
  const uint32_t anchors = section.number("num", 1, 1);
  it.anchors = section.reals("anchors");
  it.scale_x_y = static_cast<float>(section.real("scale_x_y", 1));
  it.has_new_coordinates = section.flag("new_coords");
  it.counts_distance = section.choice("nms_kind", {"default", "greedynms", "diounms"}) == 2;
  it.distance_exponent = static_cast<float>(section.real("beta_nms", it.distance_exponent));
  section.ignore(
      "jitter random resize max ignore_thresh truth_thresh iou_thresh "
      "iou_normalizer obj_normalizer cls_normalizer delta_normalizer "
      "iou_loss iou_thresh_kind label_smooth_eps objectness_smooth "
      "max_delta focal_loss counters_per_class show_details map "
      "track_history_size sim_thresh dets_for_track dets_for_show "
      "track_ciou_norm");
  if (it.anchors.size() != 2 * size_t{anchors})
    return section.refuse("anchors", fmt::format("expected the widths and heights of num={} "
                                                 "anchors, found {} numbers",
                                                 anchors, it.anchors.size()));
  it.mask = parse_mask(section, anchors);
  const uint64_t channels = it.mask.size() * (uint64_t{it.classes} + 5);
  if (channels != layer.input.channels)
    section.refuse("classes",
                   fmt::format("expected {} channels, 5 and {} classes for each of {} anchors, "
                               "found {}",
                               channels, it.classes, it.mask.size(), layer.input.channels),
                   "filters= of the layer before has to agree with classes= and mask=");
  layer.output = layer.input;
  layer.operation = std::move(it);
}

void parse_softmax(SectionReader& section, const Network& /*before*/, Layer& layer) {
  Softmax it;
  it.groups = section.number("groups", 1, 1);
  it.temperature = static_cast<float>(section.real("temperature", 1));
  section.expect({"spatial"}, 0);
  section.ignore("noloss");
  layer.operation = it;
  layer.output = layer.input;
  if (!(it.temperature > 0)) return section.refuse("temperature", "expected a temperature above 0");
  if (layer.input.elements() % it.groups != 0)
    section.refuse("groups", fmt::format("expected groups that divide {} inputs, found {}",
                                         layer.input.elements(), it.groups));
}

void parse_cost(SectionReader& section, const Network& /*before*/, Layer& layer) {
  section.ignore("type scale ratio noobj thresh");
  layer.operation = Cost{};
  layer.output = layer.input;
}

// Only in training are the place in the picture and mirroring up to chance.
void parse_crop(SectionReader& section, const Network& /*before*/, Layer& layer) {
  Crop it;
  layer.output = {layer.input.channels, section.number("crop_height", 1, 1),
                  section.number("crop_width", 1, 1)};
  if (!section.flag("noadjust")) it = {.scale = 2, .shift = -1};
  section.ignore("flip angle saturation exposure shift");
  layer.operation = it;
  if (layer.output.height > layer.input.height || layer.output.width > layer.input.width)
    section.refuse("crop_height", fmt::format("expected a part of {}, found {}",
                                              describe(layer.input), describe(layer.output)));
}

struct SectionKind {
  std::string_view name;
  void (*parse)(SectionReader&, const Network&, Layer&);
};

constexpr std::array section_kinds = {
    SectionKind{"convolutional", parse_convolutional},
    SectionKind{"conv", parse_convolutional},
    SectionKind{"connected", parse_connected},
    SectionKind{"conn", parse_connected},
    SectionKind{"maxpool", parse_maxpool},
    SectionKind{"max", parse_maxpool},
    SectionKind{"avgpool", parse_avgpool},
    SectionKind{"avg", parse_avgpool},
    SectionKind{"dropout", parse_dropout},
    SectionKind{"route", parse_route},
    SectionKind{"shortcut", parse_shortcut},
    SectionKind{"upsample", parse_upsample},
    SectionKind{"yolo", parse_yolo},
    SectionKind{"softmax", parse_softmax},
    SectionKind{"soft", parse_softmax},
    SectionKind{"cost", parse_cost},
    SectionKind{"crop", parse_crop},
};

// --- the whole ----------------------------------------------------------------------------------

Result<Shape> parse_net(const Section& section, const std::string& name,
                        const std::optional<Resolution>& resolution) {
  SectionReader reader(section, name);
  Shape input;
  input.height = reader.number("height", 0, 1);
  input.width = reader.number("width", 0, 1);
  input.channels = reader.number("channels", 0, 1);
  if (input.elements() == 0) reader.refuse("", "expected height=, width= and channels= in [net]");
  reader.expect({"inputs"}, static_cast<double>(input.elements()));
  if (resolution) input = {input.channels, resolution->height, resolution->width};
  reader.expect({"time_steps"}, 1);
  // letter_box is about how the program makes an input from a picture.
  reader.ignore(
      "batch subdivisions sequential_subdivisions learning_rate "
      "learning_rate_min momentum decay policy steps scales seq_scales "
      "step scale gamma power max_batches burn_in sgdr_cycle sgdr_mult "
      "adam B1 B2 eps angle aspect saturation exposure hue flip blur "
      "gaussian_noise mixup cutmix mosaic mosaic_bound letter_box "
      "max_crop min_crop max_ratio min_ratio center clip random notruth "
      "seen label_smooth_eps resize_step attention adversarial_lr "
      "max_chart_loss ema_alpha loss_scale dynamic_minibatch "
      "optimized_memory workspace_size_limit_MB use_cuda_graph "
      "show_receptive_field track augment_speed try_fix_nan "
      "weights_reject_freq equidistant_point "
      "badlabels_rejection_percentage num_sigmas_reject_badlabels");
  if (!is_in_bounds(input))
    reader.refuse("", fmt::format("expected an input of at most {} numbers, found {}", elements_max,
                                  describe(input)));
  if (Status status = reader.finish(); !status) return forward_error(std::move(status));
  return input;
}

void check_bounds(SectionReader& section, const Layer& layer) {
  if (!section.ok()) return;
  if (!is_in_bounds(layer.output))
    section.refuse("", fmt::format("expected an output of at most {} channels and {} numbers, "
                                   "found {}",
                                   dimension_max, elements_max, describe(layer.output)));
  else if (layer.output.elements() == 0)
    section.refuse("", fmt::format("expected an input that is as large as the layer's windows, "
                                   "found {}",
                                   describe(layer.input)));
  else if (layer.weights() > weights_max)
    section.refuse("", fmt::format("expected a layer of at most {} weights, found {}", weights_max,
                                   layer.weights()));
}

Result<Layer> parse_layer(const Section& section, const std::string& name, const Network& before) {
  const auto* const kind =
      std::find_if(section_kinds.begin(), section_kinds.end(),
                   [&](const SectionKind& candidate) { return candidate.name == section.name; });
  if (kind == section_kinds.end()) {
    std::vector<std::string_view> names;
    names.reserve(section_kinds.size());
    for (const SectionKind& known : section_kinds) names.push_back(known.name);
    return fail(fmt::format("{}, line {}: expected a kind of layer that is computed here, found "
                            "[{}]",
                            name, section.line, model::printable(section.name.substr(0, 64))),
                fmt::format("known are {}", fmt::join(names, ", ")));
  }
  Layer layer;
  layer.line = section.line;
  const auto count = static_cast<uint32_t>(before.layers.size());
  layer.inputs = {count == 0 ? network_input : count - 1};
  layer.input = before.shape_of(layer.inputs.front());

  SectionReader reader(section, name);
  kind->parse(reader, before, layer);
  check_bounds(reader, layer);
  // Other values would leave out parts of the file, or leave parts out of it.
  reader.expect({"dontload", "dontloadscales", "dontsave", "numload"}, 0);
  reader.ignore(
      "learning_rate onlyforward stopbackward dont_update burnin_update "
      "train_only_bn clip truth smooth");
  if (Status status = reader.finish(); !status) return forward_error(std::move(status));
  return layer;
}

}  // namespace

Result<Network> parse_network(std::string_view text, const std::string& name,
                              const std::optional<Resolution>& resolution) {
  Result<std::vector<Section>> sections = split_sections(text, name);
  if (!sections) return forward_error(std::move(sections));
  if (sections->empty() || (sections->front().name != "net" && sections->front().name != "network"))
    return fail(fmt::format("{}, line {}: expected [net] as the first section", name,
                            sections->empty() ? 1 : sections->front().line),
                "a network is described by a Darknet .cfg, its weights are another file");
  if (sections->size() < 2 || sections->size() - 1 > layers_max)
    return fail(fmt::format("{}: expected from 1 to {} layers, found {}", name, layers_max,
                            sections->size() - 1));

  Network network;
  Result<Shape> input = parse_net(sections->front(), name, resolution);
  if (!input) return forward_error(std::move(input));
  network.input = *input;
  for (size_t i = 1; i < sections->size(); ++i) {
    Result<Layer> layer = parse_layer((*sections)[i], name, network);
    if (!layer) return forward_error(std::move(layer));
    network.layers.push_back(std::move(*layer));
  }
  return network;
}

Result<Network> read_network(const std::string& path, const std::optional<Resolution>& resolution) {
  const auto text = read_whole_file(path, text_bytes_max, "a network's description");
  if (!text) return tl::make_unexpected(text.error());
  return resolution ? network_at(*text, path, *resolution) : parse_network(*text, path);
}

}  // namespace weightpager::network
