// The text of a description, section by section: what all descriptions are written with.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weightpager::network {

/// The text of a .cfg, to which sections are appended.
class Description {
 public:
  Description(uint32_t width, uint32_t height) {
    text_ = fmt::format("[net]\nbatch=1\nwidth={}\nheight={}\nchannels=3\n", width, height);
  }

  /// The number of the last layer.
  int number() const { return layers_ - 1; }
  const std::string& text() const { return text_; }

  /// Adds a convolution with batch normalization, padded to keep the size.
  void convolution(int filters, int size, std::string_view activation, int stride = 1) {
    section("convolutional",
            fmt::format("batch_normalize=1\nfilters={}\nsize={}\nstride={}\npad=1\nactivation={}\n",
                        filters, size, stride, activation));
  }
  void plain_convolution(int filters, int size, std::string_view activation, int stride = 1,
                         bool is_padded = true) {
    section("convolutional", fmt::format("filters={}\nsize={}\nstride={}\npad={}\nactivation={}\n",
                                         filters, size, stride, is_padded ? 1 : 0, activation));
  }
  void connected(int outputs, std::string_view activation) {
    section("connected", fmt::format("output={}\nactivation={}\n", outputs, activation));
  }
  void maxpool(int size, int stride) {
    section("maxpool", fmt::format("size={}\nstride={}\n", size, stride));
  }
  void unpadded_maxpool(int size, int stride) {
    section("maxpool", fmt::format("size={}\nstride={}\npadding=0\n", size, stride));
  }
  void shortcut(int from, std::string_view activation) {
    section("shortcut", fmt::format("from={}\nactivation={}\n", from, activation));
  }
  void route(const std::vector<int>& layers) {
    section("route", fmt::format("layers={}\n", fmt::join(layers, ",")));
  }
  void upsample(int stride = 2) { section("upsample", fmt::format("stride={}\n", stride)); }
  void dropout() { section("dropout", "probability=.5\n"); }
  void avgpool() { section("avgpool", ""); }
  void softmax() { section("softmax", "groups=1\n"); }
  void cost() { section("cost", "type=sse\n"); }
  void yolo(std::string_view anchors, std::string_view mask, std::string_view other_options = "") {
    const auto numbers = std::count(anchors.begin(), anchors.end(), ',') + 1;
    section("yolo", fmt::format("mask={}\nanchors={}\nclasses=80\nnum={}\n{}", mask, anchors,
                                numbers / 2, other_options));
  }

 private:
  void section(std::string_view name, std::string_view options) {
    text_ += fmt::format("\n[{}]\n{}", name, options);
    ++layers_;
  }

  std::string text_;
  int layers_ = 0;
};

}  // namespace weightpager::network
