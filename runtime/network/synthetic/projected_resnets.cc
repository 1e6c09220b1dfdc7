// See projected_resnets.h.
#include "runtime/network/synthetic/projected_resnets.h"

#include <array>

namespace weightpager::network {
namespace {

constexpr int picture_classes = 1000;
/// Of PASCAL VOC, with the background.
constexpr int pixel_classes = 21;
/// With 320 x 320 the widest tensor (2048 channels at an eighth) has 12.5 MiB, the most that the
/// SwapNet paper names for features in memory; it does not give the pictures' size.
constexpr uint32_t segmented_width = 320;
constexpr int shrinking = 8;

struct ResNetStage {
  int filters = 0;
  int blocks = 0;
  int stride = 1;
};

/// 1 x 1, 3 x 3 and 1 x 1 with four times as many filters; the first block has a projection.
void projected_stage(Description& net, const ResNetStage& stage) {
  for (int i = 0; i < stage.blocks; ++i) {
    const int input = net.number();
    const int stride = i == 0 ? stage.stride : 1;
    net.convolution(stage.filters, 1, "relu");
    net.convolution(stage.filters, 3, "relu", stride);
    net.convolution(4 * stage.filters, 1, "linear");
    if (i == 0) {
      net.route({input});
      net.convolution(4 * stage.filters, 1, "linear", stride);
      net.shortcut(-3, "relu");
    } else {
      net.shortcut(input, "relu");
    }
  }
}

Description resnet_start(uint32_t width) {
  Description net(width, width);
  net.convolution(64, 7, "relu", 2);
  net.maxpool(3, 2);
  return net;
}

void segmentation_head(Description& net, int filters) {
  net.convolution(filters, 3, "relu");
  net.dropout();
  net.plain_convolution(pixel_classes, 1, "linear");
  net.upsample(shrinking);
}

}  // namespace

Description projected_resnet101() {
  constexpr std::array<ResNetStage, 4> stages = {
      {{64, 3, 1}, {128, 4, 2}, {256, 23, 2}, {512, 3, 2}}};
  Description net = resnet_start(224);
  for (const ResNetStage& stage : stages) projected_stage(net, stage);
  net.avgpool();
  net.connected(picture_classes, "linear");
  net.softmax();
  return net;
}

Description fcn_resnet101() {
  constexpr std::array<ResNetStage, 3> first = {{{64, 3, 1}, {128, 4, 2}, {256, 23, 1}}};
  Description net = resnet_start(segmented_width);
  for (const ResNetStage& stage : first) projected_stage(net, stage);
  const int third = net.number();
  projected_stage(net, {512, 3, 1});
  const int fourth = net.number();
  net.route({third});
  segmentation_head(net, 256);
  net.route({fourth});
  segmentation_head(net, 512);
  return net;
}

}  // namespace weightpager::network
