// Pictures, and how Darknet makes a network's input of them.
//
// A network has learned from pictures that were scaled in one certain way. Whoever scales
// otherwise, even better, gets other boxes; so this is Darknet's way, to the bit: linear between
// the pixels of a grid whose corners are the picture's corner pixels, columns first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::infer {

/// Values from 0 to 1, as a network takes them in: [channel][row][column].
struct Image {
  network::Shape shape;
  std::vector<float> values;
};

/// PNG, JPEG, PPM, BMP and what else stb_image reads, as so many channels: 1 is grey, 3 is red,
/// green and blue.
Result<Image> read_image(const std::string& path, uint32_t channels);

/// Stretches.
Image resize(const Image& image, uint32_t width, uint32_t height);

/// Scales without stretching, with grey at the two sides where the picture does not reach. What
/// Darknet feeds its detectors and classifiers with.
Image letterbox(const Image& image, uint32_t width, uint32_t height);

/// Size of a picture in a letterbox.
struct Size {
  uint32_t width = 0;
  uint32_t height = 0;
};
Size letterboxed(Size picture, Size box);

}  // namespace weightpager::infer
