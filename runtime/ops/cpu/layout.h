// Layouts: the order in which a picture's channels, rows and columns lie in memory, and code to
// change it.
//
// Problem. The fastest code for a convolution needs a pixel's channels side by side, or in blocks
// as long as a vector. In Darknet's order, which most other layers use, they lie far apart.
//
// Cost. A change reads and writes the picture once: some 5 to 10 GB/s on one processor.
#pragma once

#include <array>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::ops {

enum class Layout : uint8_t {
  nchw,     // [channels][height][width]
  nhwc,     // [height][width][channels]
  nChw8c,   // [channels / 8][height][width][8], zeros where there are no channels
  nChw16c,  // the same with 16
};

inline constexpr std::array all_layouts = {Layout::nchw, Layout::nhwc, Layout::nChw8c,
                                           Layout::nChw16c};

/// "nchw", …
const char* layout_name(Layout layout);

/// oneDNN's description of one picture.
dnnl::memory::desc picture(const network::Shape& shape, Layout layout);

/// The size of a picture, including the zeros that fill up blocks.
uint64_t picture_bytes(const network::Shape& shape, Layout layout);
uint64_t picture_floats(const network::Shape& shape, Layout layout);

/// Changes a picture from one layout to another. Not thread-safe; runs on OpenMP's threads.
class LayoutChange {
 public:
  static Result<LayoutChange> make(const network::Shape& shape, Layout from, Layout to);

  /// `input` and `output` must not overlap.
  Status run(const float* input, float* output);

 private:
  dnnl::reorder reorder_;
  dnnl::memory from_;
  dnnl::memory to_;
};

}  // namespace weightpager::ops
