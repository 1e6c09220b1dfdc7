// Writing descriptions of networks: see description.h.
//
// Each network is a function that appends sections, mostly in loops over blocks. Sections refer to
// layers as in a .cfg: by number, or backwards from the section itself.
#include "runtime/network/synthetic/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/network/synthetic/description_text.h"
#include "runtime/network/synthetic/projected_resnets.h"

namespace weightpager::network {
namespace {

// --- detectors ----------------------------------------------------------------------------------

constexpr int classes_and_box = 80 + 5;

/// Halves height and width; then blocks of 1 x 1 and 3 x 3 with a shortcut around them.
void darknet53_stage(Description& net, int filters, int blocks) {
  net.convolution(filters, 3, "leaky", 2);
  for (int i = 0; i < blocks; ++i) {
    net.convolution(filters / 2, 1, "leaky");
    net.convolution(filters, 3, "leaky");
    net.shortcut(-3, "linear");
  }
}

/// Three pairs of 1 x 1 and 3 x 3, then the boxes of one scale.
void yolov3_head(Description& net, int filters, std::string_view mask) {
  for (int i = 0; i < 3; ++i) {
    net.convolution(filters, 1, "leaky");
    net.convolution(2 * filters, 3, "leaky");
  }
  net.plain_convolution(3 * classes_and_box, 1, "linear");
  net.yolo("10,13, 16,30, 33,23, 30,61, 62,45, 59,119, 116,90, 156,198, 373,326", mask);
}

/// Goes on from the head before, at twice the resolution, beside an earlier layer.
void yolov3_neck(Description& net, int filters, int earlier) {
  net.route({-4});
  net.convolution(filters, 1, "leaky");
  net.upsample();
  net.route({-1, earlier});
}

Description yolov3() {
  Description net(608, 608);
  net.convolution(32, 3, "leaky");
  darknet53_stage(net, 64, 1);
  darknet53_stage(net, 128, 2);
  darknet53_stage(net, 256, 8);
  const int eighth = net.number();
  darknet53_stage(net, 512, 8);
  const int sixteenth = net.number();
  darknet53_stage(net, 1024, 4);
  yolov3_head(net, 512, "6,7,8");
  yolov3_neck(net, 256, sixteenth);
  yolov3_head(net, 256, "3,4,5");
  yolov3_neck(net, 128, eighth);
  yolov3_head(net, 128, "0,1,2");
  return net;
}

Description yolov3_tiny() {
  constexpr std::string_view anchors = "10,14, 23,27, 37,58, 81,82, 135,169, 344,319";
  Description net(416, 416);
  for (const int filters : {16, 32, 64, 128, 256}) {
    net.convolution(filters, 3, "leaky");
    net.maxpool(2, 2);
  }
  const int sixteenth = net.number() - 1;
  net.convolution(512, 3, "leaky");
  net.maxpool(2, 1);
  net.convolution(1024, 3, "leaky");
  net.convolution(256, 1, "leaky");
  net.convolution(512, 3, "leaky");
  net.plain_convolution(3 * classes_and_box, 1, "linear");
  net.yolo(anchors, "3,4,5");
  yolov3_neck(net, 128, sixteenth);
  net.convolution(256, 3, "leaky");
  net.plain_convolution(3 * classes_and_box, 1, "linear");
  net.yolo(anchors, "0,1,2");
  return net;
}

/// Cross-stage partial: half of the channels go through the blocks, the other half around them.
void csp_stage(Description& net, int filters, int blocks) {
  net.convolution(filters, 3, "mish", 2);
  net.convolution(filters / 2, 1, "mish");
  net.route({-2});
  net.convolution(filters / 2, 1, "mish");
  for (int i = 0; i < blocks; ++i) {
    net.convolution(filters / 2, 1, "mish");
    net.convolution(filters / 2, 3, "mish");
    net.shortcut(-3, "linear");
  }
  net.convolution(filters / 2, 1, "mish");
  net.route({-1, -4 - 3 * blocks});
  net.convolution(filters, 1, "mish");
}

/// The first stage of YOLOv4 does not halve the channels.
void yolov4_first_stage(Description& net) {
  net.convolution(64, 3, "mish", 2);
  net.convolution(64, 1, "mish");
  net.route({-2});
  net.convolution(64, 1, "mish");
  net.convolution(32, 1, "mish");
  net.convolution(64, 3, "mish");
  net.shortcut(-3, "linear");
  net.convolution(64, 1, "mish");
  net.route({-1, -7});
  net.convolution(64, 1, "mish");
}

/// Maxima over three sizes of neighbourhoods, beside each other.
void spatial_pyramid(Description& net) {
  net.maxpool(5, 1);
  net.route({-2});
  net.maxpool(9, 1);
  net.route({-4});
  net.maxpool(13, 1);
  net.route({-1, -3, -5, -6});
}

/// 1 x 1 and 3 x 3 in turn; `layers` of them.
void alternate(Description& net, int filters, int layers) {
  for (int i = 0; i < layers; ++i)
    net.convolution(i % 2 == 0 ? filters : 2 * filters, i % 2 == 0 ? 1 : 3, "leaky");
}

/// Goes to twice the resolution, beside an earlier layer.
void yolov4_up(Description& net, int filters, int earlier) {
  net.convolution(filters, 1, "leaky");
  net.upsample();
  net.route({earlier});
  net.convolution(filters, 1, "leaky");
  net.route({-1, -3});
  alternate(net, filters, 5);
}

void yolov4_boxes(Description& net, int filters, std::string_view mask, std::string_view scale) {
  net.convolution(filters, 3, "leaky");
  net.plain_convolution(3 * classes_and_box, 1, "linear");
  net.yolo("12,16, 19,36, 40,28, 36,75, 76,55, 72,146, 142,110, 192,243, 459,401", mask,
           fmt::format("scale_x_y={}\n", scale));
}

/// Goes from the scale before to half the resolution, beside an earlier layer.
void yolov4_down(Description& net, int filters, int earlier) {
  net.route({-4});
  net.convolution(filters, 3, "leaky", 2);
  net.route({-1, earlier});
  alternate(net, filters, 5);
}

Description yolov4() {
  Description net(608, 608);
  net.convolution(32, 3, "mish");
  yolov4_first_stage(net);
  csp_stage(net, 128, 2);
  csp_stage(net, 256, 8);
  const int eighth = net.number();
  csp_stage(net, 512, 8);
  const int sixteenth = net.number();
  csp_stage(net, 1024, 4);
  alternate(net, 512, 3);
  spatial_pyramid(net);
  alternate(net, 512, 3);
  const int neck_32 = net.number();
  yolov4_up(net, 256, sixteenth);
  const int neck_16 = net.number();
  yolov4_up(net, 128, eighth);
  yolov4_boxes(net, 256, "0,1,2", "1.2");
  yolov4_down(net, 256, neck_16);
  yolov4_boxes(net, 512, "3,4,5", "1.1");
  yolov4_down(net, 512, neck_32);
  yolov4_boxes(net, 1024, "6,7,8", "1.05");
  return net;
}

/// YOLOv4-P6 splits its necks like its stages, but without shortcuts.
void p6_split(Description& net, int filters) {
  net.convolution(filters, 1, "mish");
  net.convolution(filters, 1, "mish");
  net.route({-2});
  for (int i = 0; i < 3; ++i) {
    net.convolution(filters, 1, "mish");
    net.convolution(filters, 3, "mish");
  }
  net.route({-1, -8});
  net.convolution(filters, 1, "mish");
}

void p6_up(Description& net, int filters, int earlier) {
  net.convolution(filters, 1, "mish");
  net.upsample();
  net.route({earlier});
  net.convolution(filters, 1, "mish");
  net.route({-1, -3});
  p6_split(net, filters);
}

void p6_down(Description& net, int filters, int earlier) {
  net.convolution(filters, 3, "mish", 2);
  net.route({-1, earlier});
  p6_split(net, filters);
}

void p6_boxes(Description& net, int from, int filters, std::string_view mask) {
  net.route({from});
  net.convolution(filters, 3, "mish");
  net.plain_convolution(4 * classes_and_box, 1, "logistic");
  net.yolo(
      "13,17, 31,25, 24,51, 61,45, 61,45, 48,102, 119,96, 97,189, 97,189, 217,184, 171,384, "
      "324,451, 324,451, 545,357, 616,618, 1024,1024",
      mask, "scale_x_y=2.0\nnew_coords=1\nnms_kind=diounms\nbeta_nms=0.6\n");
}

Description yolov4_p6() {
  Description net(640, 640);
  net.convolution(32, 3, "mish");
  csp_stage(net, 64, 1);
  csp_stage(net, 128, 3);
  csp_stage(net, 256, 15);
  const int eighth = net.number();
  csp_stage(net, 512, 15);
  const int sixteenth = net.number();
  csp_stage(net, 1024, 7);
  const int thirty_second = net.number();
  csp_stage(net, 1024, 7);

  net.convolution(512, 1, "mish");
  const int around = net.number();
  net.route({-2});
  net.convolution(512, 1, "mish");
  net.convolution(512, 3, "mish");
  net.convolution(512, 1, "mish");
  spatial_pyramid(net);
  net.convolution(512, 1, "mish");
  net.convolution(512, 3, "mish");
  net.route({-1, around});
  net.convolution(512, 1, "mish");
  const int neck_64 = net.number();

  p6_up(net, 512, thirty_second);
  const int neck_32 = net.number();
  p6_up(net, 256, sixteenth);
  const int neck_16 = net.number();
  p6_up(net, 128, eighth);
  const int scale_8 = net.number();
  p6_down(net, 256, neck_16);
  const int scale_16 = net.number();
  p6_down(net, 512, neck_32);
  const int scale_32 = net.number();
  p6_down(net, 512, neck_64);
  const int scale_64 = net.number();
  p6_boxes(net, scale_8, 256, "0,1,2,3");
  p6_boxes(net, scale_16, 512, "4,5,6,7");
  p6_boxes(net, scale_32, 1024, "8,9,10,11");
  p6_boxes(net, scale_64, 1024, "12,13,14,15");
  return net;
}

// --- classifiers --------------------------------------------------------------------------------

constexpr int classes = 1000;

/// The beginning of ResNet and DenseNet.
Description wide_start(uint32_t width) {
  Description net(width, width);
  net.convolution(64, 7, "leaky", 2);
  net.maxpool(2, 2);
  return net;
}

/// The classes of each place, averaged, or the classes of the average.
void classify_places(Description& net) {
  net.plain_convolution(classes, 1, "linear");
  net.avgpool();
  net.softmax();
}
void classify_average(Description& net) {
  net.avgpool();
  net.plain_convolution(classes, 1, "linear");
  net.softmax();
}

using Blocks = std::array<int, 4>;

/// Blocks of two 3 x 3.
Description basic_resnet(const Blocks& blocks) {
  Description net = wide_start(256);
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int filters = 64 << stage;
    for (int i = 0; i < blocks[stage]; ++i) {
      net.convolution(filters, 3, "leaky", stage > 0 && i == 0 ? 2 : 1);
      net.convolution(filters, 3, "linear");
      net.shortcut(-3, "leaky");
    }
  }
  classify_average(net);
  return net;
}

/// Blocks of 1 x 1, 3 x 3 and 1 x 1 with four times as many filters.
Description bottleneck_resnet(uint32_t width, const Blocks& blocks) {
  Description net = wide_start(width);
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int filters = 64 << stage;
    for (int i = 0; i < blocks[stage]; ++i) {
      net.convolution(filters, 1, "leaky");
      net.convolution(filters, 3, "leaky", stage > 0 && i == 0 ? 2 : 1);
      net.convolution(4 * filters, 1, "linear");
      net.shortcut(-4, "leaky");
    }
  }
  return net;
}

Description resnet18() { return basic_resnet({2, 2, 2, 2}); }
Description resnet34() { return basic_resnet({3, 4, 6, 3}); }
Description resnet50() {
  Description net = bottleneck_resnet(256, {3, 4, 6, 3});
  classify_average(net);
  return net;
}
Description resnet101() {
  Description net = bottleneck_resnet(256, {3, 4, 23, 3});
  classify_places(net);
  net.cost();
  return net;
}
Description resnet152() {
  Description net = bottleneck_resnet(608, {3, 8, 36, 3});
  classify_places(net);
  net.cost();
  return net;
}

Description densenet201() {
  struct Stage {
    int layers;
    /// The number of filters of the layer that ends the stage; 0 in the last stage.
    int transition;
  };
  constexpr std::array stages = {Stage{6, 128}, Stage{12, 256}, Stage{48, 512}, Stage{32, 0}};
  Description net = wide_start(608);
  for (const Stage& stage : stages) {
    for (int i = 0; i < stage.layers; ++i) {
      net.convolution(128, 1, "leaky");
      net.convolution(32, 3, "leaky");
      net.route({-1, -3});
    }
    if (stage.transition == 0) break;
    net.convolution(stage.transition, 1, "leaky");
    net.maxpool(2, 2);
  }
  classify_places(net);
  net.cost();
  return net;
}

/// Three connected layers, as in the networks of 2012 to 2014.
void classify_connected(Description& net) {
  for (int i = 0; i < 2; ++i) {
    net.connected(4096, "relu");
    net.dropout();
  }
  net.connected(classes, "linear");
  net.softmax();
}

Description alexnet() {
  Description net(227, 227);
  net.plain_convolution(96, 11, "relu", 4, false);
  net.unpadded_maxpool(3, 2);
  net.plain_convolution(256, 5, "relu");
  net.unpadded_maxpool(3, 2);
  net.plain_convolution(384, 3, "relu");
  net.plain_convolution(384, 3, "relu");
  net.plain_convolution(256, 3, "relu");
  net.unpadded_maxpool(3, 2);
  classify_connected(net);
  return net;
}

Description vgg(const std::array<int, 5>& layers) {
  Description net(224, 224);
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    for (int i = 0; i < layers[stage]; ++i)
      net.plain_convolution(std::min(64 << stage, 512), 3, "relu");
    net.maxpool(2, 2);
  }
  classify_connected(net);
  return net;
}

Description vgg16() { return vgg({2, 2, 3, 3, 3}); }
Description vgg19() { return vgg({2, 2, 4, 4, 4}); }

Description darknet19() {
  Description net(256, 256);
  net.convolution(32, 3, "leaky");
  net.maxpool(2, 2);
  net.convolution(64, 3, "leaky");
  for (const auto& [filters, layers] :
       {std::pair{128, 3}, std::pair{256, 3}, std::pair{512, 5}, std::pair{1024, 5}}) {
    net.maxpool(2, 2);
    for (int i = 0; i < layers; ++i)
      net.convolution(i % 2 == 0 ? filters : filters / 2, i % 2 == 0 ? 3 : 1, "leaky");
  }
  classify_places(net);
  return net;
}

/// The filters of an inception module: 1 x 1; 1 x 1 before 3 x 3; 1 x 1 before 5 x 5; 1 x 1 behind
/// the pool.
struct Inception {
  int one;
  int before_three, three;
  int before_five, five;
  int pooled;
};

void inception(Description& net, const Inception& filters) {
  const int input = net.number();
  net.convolution(filters.one, 1, "relu");
  const int one = net.number();
  net.route({input});
  net.convolution(filters.before_three, 1, "relu");
  net.convolution(filters.three, 3, "relu");
  const int three = net.number();
  net.route({input});
  net.convolution(filters.before_five, 1, "relu");
  net.convolution(filters.five, 5, "relu");
  const int five = net.number();
  net.route({input});
  net.maxpool(3, 1);
  net.convolution(filters.pooled, 1, "relu");
  net.route({one, three, five, net.number()});
}

Description googlenet() {
  Description net(224, 224);
  net.convolution(64, 7, "relu", 2);
  net.maxpool(3, 2);
  net.convolution(64, 1, "relu");
  net.convolution(192, 3, "relu");
  net.maxpool(3, 2);
  inception(net, {64, 96, 128, 16, 32, 32});
  inception(net, {128, 128, 192, 32, 96, 64});
  net.maxpool(3, 2);
  inception(net, {192, 96, 208, 16, 48, 64});
  inception(net, {160, 112, 224, 24, 64, 64});
  inception(net, {128, 128, 256, 24, 64, 64});
  inception(net, {112, 144, 288, 32, 64, 64});
  inception(net, {256, 160, 320, 32, 128, 128});
  net.maxpool(3, 2);
  inception(net, {256, 160, 320, 32, 128, 128});
  inception(net, {384, 192, 384, 48, 128, 128});
  net.avgpool();
  net.dropout();
  net.connected(classes, "linear");
  net.softmax();
  return net;
}

/// Few channels, then 1 x 1 and 3 x 3 of them beside each other.
void fire(Description& net, int squeezed, int expanded) {
  net.plain_convolution(squeezed, 1, "relu");
  net.plain_convolution(expanded, 1, "relu");
  net.route({-2});
  net.plain_convolution(expanded, 3, "relu");
  net.route({-3, -1});
}

Description squeezenet() {
  Description net(224, 224);
  net.plain_convolution(64, 3, "relu", 2, false);
  net.unpadded_maxpool(3, 2);
  fire(net, 16, 64);
  fire(net, 16, 64);
  net.unpadded_maxpool(3, 2);
  fire(net, 32, 128);
  fire(net, 32, 128);
  net.unpadded_maxpool(3, 2);
  fire(net, 48, 192);
  fire(net, 48, 192);
  fire(net, 64, 256);
  fire(net, 64, 256);
  net.dropout();
  net.plain_convolution(classes, 1, "relu");
  net.avgpool();
  net.softmax();
  return net;
}

struct Described {
  const char* name;
  Description (*make)();
};

constexpr std::array all = {
    Described{"yolov3", yolov3},
    Described{"yolov3-tiny", yolov3_tiny},
    Described{"yolov4", yolov4},
    Described{"yolov4-p6", yolov4_p6},
    Described{"resnet18", resnet18},
    Described{"resnet34", resnet34},
    Described{"resnet50", resnet50},
    Described{"resnet101", resnet101},
    Described{"resnet152", resnet152},
    Described{"densenet201", densenet201},
    Described{"alexnet", alexnet},
    Described{"vgg16", vgg16},
    Described{"vgg19", vgg19},
    Described{"darknet19", darknet19},
    Described{"googlenet", googlenet},
    Described{"squeezenet", squeezenet},
    Described{"resnet101-projected", projected_resnet101},
    Described{"fcn-resnet101", fcn_resnet101},
};

}  // namespace

std::vector<std::string> described_networks() {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Described& it : all) names.emplace_back(it.name);
  return names;
}

Result<std::string> make_description(const std::string& name) {
  const auto* const found =
      std::find_if(all.begin(), all.end(), [&](const Described& it) { return it.name == name; });
  if (found == all.end())
    return fail(fmt::format("there is no network '{}' to make", name),
                fmt::format("networks: {}", fmt::join(described_networks(), ", ")));
  return fmt::format("# {}, written by `weightpager model make`.\n{}", name, found->make().text());
}

}  // namespace weightpager::network
