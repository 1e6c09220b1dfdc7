// Convolutions over a matrix product, oneDNN's sgemm. Input and output can each be in Darknet's
// layout or have channels side by side. The candidates differ in the memory that they need beside
// the picture:
//
//   im2col, im2row   The picture is unfolded: every pixel with its surroundings, size² times the
//                    picture. im2col has a column per pixel, im2row has a row. Either the whole
//                    picture is unfolded, or ("-strips") some rows at a time, as many as fit a
//                    cache.
//   kn2row           The whole picture is multiplied with one of the kernel's size² points after
//                    the other, and each product is added to the output, shifted. A product is as
//                    large as the output. Only for stride 1: with larger strides most of a product
//                    would be thrown away.
//   direct           The same for one row of the output at a time. The shift only changes pointers,
//                    and sgemm itself adds the product to the output: no memory beside the picture.
//
// The first two add up all terms in one call, the others in size² calls.
#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/ops/cpu/convolution_candidate.h"

namespace weightpager::ops {
namespace {

// The size of unfolded strips: half of a second-level cache.
constexpr uint64_t strip_floats = 512 * KiB / sizeof(float);

// The sizes of a convolution without groups, as signed numbers.
struct Sizes {
  int64_t channels, height, width;  // of the input
  int64_t filters, output_height, output_width;
  int64_t size, stride, padding;

  explicit Sizes(const network::Layer& layer)
      : channels(layer.input.channels),
        height(layer.input.height),
        width(layer.input.width),
        filters(layer.output.channels),
        output_height(layer.output.height),
        output_width(layer.output.width) {
    const auto& it = std::get<network::Convolutional>(layer.operation);
    size = it.size;
    stride = it.stride;
    padding = it.padding;
  }
  int64_t pixels() const { return height * width; }
  int64_t output_pixels() const { return output_height * output_width; }
  int64_t points() const { return size * size; }
  int64_t terms() const { return channels * points(); }
  bool needs_no_unfolding() const { return size == 1 && stride == 1 && padding == 0; }
  // The input row (or column) of an output row (or column) at a point of the kernel.
  int64_t source(int64_t at, int64_t point) const { return at * stride + point - padding; }
};

// The output columns [begin, end) whose input columns at this point of the kernel are in the
// picture.
struct Columns {
  int64_t begin = 0;
  int64_t end = 0;

  Columns(const Sizes& it, int64_t point) {
    const int64_t shift = point - it.padding;
    begin = shift >= 0 ? 0 : std::min(it.output_width, (-shift + it.stride - 1) / it.stride);
    const int64_t last = it.width - 1 - shift;
    end = last < 0 ? begin : std::clamp(last / it.stride + 1, begin, it.output_width);
  }
  int64_t count() const { return end - begin; }
};

// Rows of numbers that are `step` apart; if transposed, columns that are `step` apart.
struct Matrix {
  const float* data = nullptr;
  int64_t step = 0;
  bool is_transposed = false;

  Matrix transposed() const { return {data, step, !is_transposed}; }
};

// result[rows][columns] += left[rows][terms] · right[terms][columns].
int add_product(const Matrix& left, const Matrix& right, int64_t rows, int64_t columns,
                int64_t terms, float* result, int64_t result_step, float keep = 1) {
  if (rows == 0 || columns == 0) return dnnl_success;
  return dnnl_sgemm(left.is_transposed ? 'T' : 'N', right.is_transposed ? 'T' : 'N', rows, columns,
                    terms, 1, left.data, left.step, right.data, right.step, keep, result,
                    result_step);
}

Status of_sgemm(int status) {
  if (status == dnnl_success) return {};
  return fail(fmt::format("oneDNN failed in a matrix product (status {})", status),
              "status 1 is want of memory: leave more for others");
}

using Traits = ConvolutionCandidate::Traits;
using Pointers = ConvolutionCandidate::Pointers;

class GemmCandidate : public ConvolutionCandidate {
 protected:
  GemmCandidate(Traits traits, const network::Layer& layer, int threads)
      : ConvolutionCandidate(std::move(traits)), sizes_(layer), threads_(threads) {}

  bool takes_nhwc() const { return traits().layout_in == Layout::nhwc; }
  bool gives_nhwc() const { return traits().layout_out == Layout::nhwc; }

  void fill_with_biases(const Pointers& pointers) const {
    const int64_t pixels = sizes_.output_pixels();
#pragma omp parallel for num_threads(threads_)
    for (int64_t i = 0; i < (gives_nhwc() ? pixels : sizes_.filters); ++i) {
      if (gives_nhwc()) {
        std::copy_n(pointers.biases, sizes_.filters, pointers.output + i * sizes_.filters);
      } else {
        std::fill_n(pointers.output + i * pixels, pixels, pointers.biases[i]);
      }
    }
  }

  // Adds a product to the output's pixels [first, first + count): `source` has a row of terms per
  // pixel, `weights` a row of terms per filter.
  int add_to_output(const Matrix& source, const Matrix& weights, int64_t first, int64_t count,
                    int64_t terms, float* output, float keep = 1) const {
    if (gives_nhwc()) {
      return add_product(source, weights.transposed(), count, sizes_.filters, terms,
                         output + first * sizes_.filters, sizes_.filters, keep);
    }
    return add_product(weights, source.transposed(), sizes_.filters, count, terms, output + first,
                       sizes_.output_pixels(), keep);
  }

  const Sizes sizes_;
  const int threads_;
};

// Packs weights point by point of the kernel: [size][size][filters][channels].
class PointByPoint : public GemmCandidate {
 public:
  PointByPoint(Traits traits, const network::Layer& layer, int threads)
      : GemmCandidate(std::move(traits), layer, threads) {}

  Status pack(const float* weights, float* packed) override {
    const int64_t points = sizes_.points();
    const int64_t each = sizes_.filters * sizes_.channels;
    for (int64_t i = 0; i < each; ++i) {
      for (int64_t point = 0; point < points; ++point) {
        packed[point * each + i] = weights[i * points + point];
      }
    }
    return {};
  }
};

class Unfolding : public GemmCandidate {
 public:
  Unfolding(Traits traits, const network::Layer& layer, int threads, int64_t strip_rows)
      : GemmCandidate(std::move(traits), layer, threads), strip_rows_(strip_rows) {}

  // Terms are in the order of the picture's layout: channels first, or last.
  Status pack(const float* weights, float* packed) override {
    const int64_t points = sizes_.points();
    for (int64_t filter = 0; filter < sizes_.filters; ++filter) {
      const float* const from = weights + filter * sizes_.terms();
      float* const to = packed + filter * sizes_.terms();
      if (!takes_nhwc()) {
        std::copy_n(from, sizes_.terms(), to);
        continue;
      }
      for (int64_t channel = 0; channel < sizes_.channels; ++channel) {
        for (int64_t point = 0; point < points; ++point) {
          to[point * sizes_.channels + channel] = from[channel * points + point];
        }
      }
    }
    return {};
  }

  Status run(const Pointers& pointers) override {
    fill_with_biases(pointers);
    const Matrix weights{pointers.packed, sizes_.terms()};
    for (int64_t row = 0; row < sizes_.output_height; row += strip_rows_) {
      const int64_t rows = std::min(strip_rows_, sizes_.output_height - row);
      const int64_t pixels = rows * sizes_.output_width;
      const Matrix unfolded = unfold(pointers.input, row, rows, pointers.workspace);
      const int status = add_to_output(unfolded, weights, row * sizes_.output_width, pixels,
                                       sizes_.terms(), pointers.output);
      if (status != dnnl_success) return of_sgemm(status);
    }
    return {};
  }

 private:
  // A row of terms per pixel of the output rows [row, row + rows).
  Matrix unfold(const float* input, int64_t row, int64_t rows, float* unfolded) const {
    if (takes_nhwc()) {
      if (sizes_.needs_no_unfolding())
        return {input + row * sizes_.width * sizes_.channels, sizes_.channels};
      unfold_to_rows(input, row, rows, unfolded);
      return {unfolded, sizes_.terms()};
    }
    if (sizes_.needs_no_unfolding()) return {input + row * sizes_.width, sizes_.pixels(), true};
    unfold_to_columns(input, row, rows, unfolded);
    return {unfolded, rows * sizes_.output_width, true};
  }

  void unfold_to_rows(const float* input, int64_t row, int64_t rows, float* unfolded) const {
    const Sizes& it = sizes_;
    const int64_t width = it.output_width;
#pragma omp parallel for num_threads(threads_)
    for (int64_t pixel = 0; pixel < rows * width; ++pixel) {
      float* to = unfolded + pixel * it.terms();
      for (int64_t point_y = 0; point_y < it.size; ++point_y) {
        const int64_t y = it.source(row + pixel / width, point_y);
        for (int64_t point_x = 0; point_x < it.size; ++point_x, to += it.channels) {
          const int64_t x = it.source(pixel % width, point_x);
          if (y < 0 || y >= it.height || x < 0 || x >= it.width) {
            std::fill_n(to, it.channels, 0.0f);
          } else {
            std::copy_n(input + (y * it.width + x) * it.channels, it.channels, to);
          }
        }
      }
    }
  }

  void unfold_to_columns(const float* input, int64_t row, int64_t rows, float* unfolded) const {
    const Sizes& it = sizes_;
#pragma omp parallel for num_threads(threads_)
    for (int64_t term = 0; term < it.terms(); ++term) {
      const float* const plane = input + term / it.points() * it.pixels();
      const int64_t point_y = term % it.points() / it.size;
      const int64_t point_x = term % it.size;
      float* to = unfolded + term * rows * it.output_width;
      for (int64_t i = 0; i < rows; ++i, to += it.output_width) {
        const int64_t y = it.source(row + i, point_y);
        const bool is_outside = y < 0 || y >= it.height;
        unfold_row(is_outside ? nullptr : plane + y * it.width, point_x, to);
      }
    }
  }

  // nullptr: a row of zeros.
  void unfold_row(const float* line, int64_t point_x, float* to) const {
    if (line == nullptr) {
      std::fill_n(to, sizes_.output_width, 0.0f);
      return;
    }
    const Columns inside(sizes_, point_x);
    std::fill(to, to + inside.begin, 0.0f);
    for (int64_t x = inside.begin; x < inside.end; ++x) to[x] = line[sizes_.source(x, point_x)];
    std::fill(to + inside.end, to + sizes_.output_width, 0.0f);
  }

  const int64_t strip_rows_;
};

class KernelToRow : public PointByPoint {
 public:
  using PointByPoint::PointByPoint;

  Status run(const Pointers& pointers) override {
    fill_with_biases(pointers);
    const Sizes& it = sizes_;
    const Matrix source = takes_nhwc() ? Matrix{pointers.input, it.channels}
                                       : Matrix{pointers.input, it.pixels(), true};
    for (int64_t point = 0; point < it.points(); ++point) {
      const Matrix weights{pointers.packed + point * it.filters * it.channels, it.channels};
      const int status = multiply(source, weights, pointers.workspace);
      if (status != dnnl_success) return of_sgemm(status);
      add_shifted(pointers.workspace, point / it.size, point % it.size, pointers.output);
    }
    return {};
  }

 private:
  // All filters at all pixels of the input, in the output's layout.
  int multiply(const Matrix& source, const Matrix& weights, float* products) const {
    const Sizes& it = sizes_;
    if (gives_nhwc()) {
      return add_product(source, weights.transposed(), it.pixels(), it.filters, it.channels,
                         products, it.filters, 0);
    }
    return add_product(weights, source.transposed(), it.filters, it.pixels(), it.channels, products,
                       it.pixels(), 0);
  }

  void add_shifted(const float* products, int64_t point_y, int64_t point_x, float* output) const {
    const Sizes& it = sizes_;
    const Columns inside(it, point_x);
    // With channels side by side this is one image of filters · width columns, otherwise one image
    // per filter.
    const int64_t planes = gives_nhwc() ? 1 : it.filters;
    const int64_t per_pixel = gives_nhwc() ? it.filters : 1;
#pragma omp parallel for num_threads(threads_)
    for (int64_t row = 0; row < planes * it.output_height; ++row) {
      const int64_t plane = row / it.output_height;
      const int64_t y = it.source(row % it.output_height, point_y);
      if (y < 0 || y >= it.height) continue;
      const int64_t from_pixel =
          (plane * it.height + y) * it.width + it.source(inside.begin, point_x);
      const float* const from = products + from_pixel * per_pixel;
      float* const to = output + (row * it.output_width + inside.begin) * per_pixel;
      for (int64_t i = 0; i < inside.count() * per_pixel; ++i) to[i] += from[i];
    }
  }
};

class Direct : public PointByPoint {
 public:
  using PointByPoint::PointByPoint;

  Status run(const Pointers& pointers) override {
    fill_with_biases(pointers);
    std::atomic<int> failed = dnnl_success;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (int64_t row = 0; row < sizes_.output_height; ++row) {
      const int status = add_row(pointers, row);
      if (status != dnnl_success) failed = status;
    }
    return of_sgemm(failed);
  }

 private:
  int add_row(const Pointers& pointers, int64_t row) const {
    const Sizes& it = sizes_;
    for (int64_t point = 0; point < it.points(); ++point) {
      const int64_t y = it.source(row, point / it.size);
      if (y < 0 || y >= it.height) continue;
      const int64_t point_x = point % it.size;
      const Columns inside(it, point_x);
      const int64_t first = y * it.width + it.source(inside.begin, point_x);
      const Matrix source =
          takes_nhwc() ? Matrix{pointers.input + first * it.channels, it.stride * it.channels}
                       : Matrix{pointers.input + first, it.pixels(), true};
      const Matrix weights{pointers.packed + point * it.filters * it.channels, it.channels};
      const int status = add_to_output(source, weights, row * it.output_width + inside.begin,
                                       inside.count(), it.channels, pointers.output);
      if (status != dnnl_success) return status;
    }
    return dnnl_success;
  }
};

// The plain convolution, which computes layers without a plan.
class InTiles : public ConvolutionCandidate {
 public:
  InTiles(Traits traits, const network::Layer& layer, const Convolution& convolution)
      : ConvolutionCandidate(std::move(traits)),
        filters_(layer.output.channels),
        weights_(layer.weights()),
        convolution_(convolution) {}

  Status pack(const float* weights, float* packed) override {
    std::copy_n(weights, weights_, packed);
    return {};
  }

  Status run(const Pointers& pointers) override {
    return convolution_.run({0, filters_}, {pointers.biases, pointers.packed}, pointers.input,
                            pointers.output, pointers.workspace);
  }

 private:
  uint32_t filters_;
  uint64_t weights_;
  Convolution convolution_;
};

class Collection {
 public:
  Collection(const network::Layer& layer, int threads)
      : layer_(layer), threads_(threads), sizes_(layer) {}

  ConvolutionCandidates take() && {
    add_tiles();
    const auto& it = std::get<network::Convolutional>(layer_.operation);
    if (it.groups != 1) return std::move(candidates_);
    for (const Layout in : {Layout::nchw, Layout::nhwc}) {
      for (const Layout out : {Layout::nchw, Layout::nhwc}) {
        add_unfoldings(in, out);
        if (sizes_.needs_no_unfolding()) continue;
        if (sizes_.stride == 1) add<KernelToRow>("kn2row", in, out, products_floats());
        // A row's pixels must be evenly apart. With a stride they are only if channels are side by
        // side.
        if (sizes_.stride == 1 || in == Layout::nhwc) add<Direct>("direct", in, out, 0);
      }
    }
    return std::move(candidates_);
  }

 private:
  uint64_t products_floats() const {
    return static_cast<uint64_t>(sizes_.filters * sizes_.pixels());
  }

  Traits traits(const std::string& name, Layout in, Layout out, uint64_t workspace_floats) const {
    return {name, in, out, workspace_floats * sizeof(float), layer_.weights() * sizeof(float)};
  }

  template <typename Kind>
  void add(const std::string& name, Layout in, Layout out, uint64_t workspace_floats) {
    candidates_.push_back(
        std::make_unique<Kind>(traits(name, in, out, workspace_floats), layer_, threads_));
  }

  void add_tiles() {
    // The planner has a separate time for each activation, and a planned inference applies it after
    // the candidate.
    network::Layer without_activation = layer_;
    std::get<network::Convolutional>(without_activation.operation).activation =
        network::Activation::linear;
    const Convolution convolution(without_activation, threads_);
    candidates_.push_back(std::make_unique<InTiles>(
        traits(in_tiles, Layout::nchw, Layout::nchw, convolution.scratch_floats()), layer_,
        convolution));
  }

  void add_unfoldings(Layout in, Layout out) {
    const std::string name = in == Layout::nchw ? "im2col" : "im2row";
    const int64_t row_floats = sizes_.terms() * sizes_.output_width;
    const int64_t height = sizes_.output_height;
    if (sizes_.needs_no_unfolding()) return add_unfolding(name, in, out, height, 0);
    add_unfolding(name, in, out, height, height * row_floats);
    const int64_t fitting = static_cast<int64_t>(strip_floats) / row_floats;
    const int64_t strip_rows = std::clamp<int64_t>(fitting, 1, height);
    if (strip_rows == height) return;
    add_unfolding(name + "-strips", in, out, strip_rows, strip_rows * row_floats);
  }

  void add_unfolding(const std::string& name, Layout in, Layout out, int64_t strip_rows,
                     int64_t workspace_floats) {
    candidates_.push_back(
        std::make_unique<Unfolding>(traits(name, in, out, static_cast<uint64_t>(workspace_floats)),
                                    layer_, threads_, strip_rows));
  }

  const network::Layer& layer_;
  const int threads_;
  const Sizes sizes_;
  ConvolutionCandidates candidates_;
};

}  // namespace

ConvolutionCandidates gemm_candidates(const network::Layer& layer, int threads) {
  return Collection(layer, threads).take();
}

ConvolutionCandidates convolution_candidates(const network::Layer& layer, int threads) {
  ConvolutionCandidates candidates = gemm_candidates(layer, threads);
  const auto is_wanted = [](const ConvolutionCandidate::Traits&) { return true; };
  for (auto& it : onednn_candidates(layer, is_wanted)) candidates.push_back(std::move(it));
  return candidates;
}

std::unique_ptr<ConvolutionCandidate> convolution_candidate(const network::Layer& layer,
                                                            int threads, const std::string& name,
                                                            Layout layout_in, Layout layout_out) {
  const auto is_wanted = [&](const ConvolutionCandidate::Traits& it) {
    return it.name == name && it.layout_in == layout_in && it.layout_out == layout_out;
  };
  for (auto& it : gemm_candidates(layer, threads)) {
    if (is_wanted(it->traits())) return std::move(it);
  }
  ConvolutionCandidates found = onednn_candidates(layer, is_wanted);
  return found.empty() ? nullptr : std::move(found.front());
}

}  // namespace weightpager::ops
