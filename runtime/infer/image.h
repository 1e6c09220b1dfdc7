// Pictures, and a network's input made from them as Darknet does it.
//
// A network has learned from pictures that were scaled in one certain way. Any other way, even a
// better one, gives other boxes. So this is Darknet's way, to the bit: linear interpolation between
// the pixels of a grid whose corners are the picture's corner pixels, columns first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::infer {

/// Values from 0 to 1, in the order of a network's input: [channel][row][column].
struct Image {
  network::Shape shape;
  std::vector<float> values;
};

/// Reads PNG, JPEG, PPM, BMP and the other formats of stb_image. `channels`: 1 is grey, 3 is red,
/// green and blue. Fails for other numbers of channels, and if the file is not a whole picture.
Result<Image> read_image(const std::string& path, uint32_t channels);

/// Scales to this size; the proportions may change.
Image resize(const Image& image, uint32_t width, uint32_t height);

/// Scales and keeps the proportions, with grey at the two sides that the picture does not reach.
/// The input that Darknet gives its detectors and classifiers.
Image letterbox(const Image& image, uint32_t width, uint32_t height);

/// Size of a picture in a letterbox.
struct Size {
  uint32_t width = 0;
  uint32_t height = 0;
};
Size letterboxed(Size picture, Size box);

}  // namespace weightpager::infer
