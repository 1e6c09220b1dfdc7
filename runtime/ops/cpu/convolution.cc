#include "runtime/ops/cpu/convolution.h"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::ops {
namespace {

// What a block's unfolded surroundings and its outputs may take together: a processor's share of
// the second-level cache, doubled because sgemm reads the former once.
constexpr uint64_t block_floats_max = 2 * MiB / sizeof(float);
// So that a thread that is kept for a while leaves little that the others wait for.
constexpr uint32_t parts_per_thread = 4;
// One or two vectors.
constexpr uint64_t block_pixels_unit = 16;

// sgemm adds up in the same order whatever the number of channels.
bool order_is_independent_of_channels() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
    case dnnl_cpu_isa_avx:
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx2_vnni:
      return false;
    default:
      return true;
  }
}

Status sgemm_failed(int status) {
  return fail(fmt::format("oneDNN failed in a matrix product (status {})", status),
              "status 1 is want of memory: leave more for others, or make the window smaller");
}

}  // namespace

Convolution::Convolution(const network::Layer& layer, int threads, Unfold unfolding)
    : input_(layer.input), output_(layer.output), threads_(threads) {
  if (const auto* it = std::get_if<network::Convolutional>(&layer.operation)) {
    groups_ = it->groups;
    size_ = it->size;
    stride_ = it->stride;
    padding_ = it->padding;
  } else {
    // Every input is a channel of one pixel.
    WP_ASSERT(std::holds_alternative<network::Connected>(layer.operation));
    input_ = {static_cast<uint32_t>(layer.input.elements()), 1, 1};
  }
  is_unfolded_ = size_ != 1 || stride_ != 1 || padding_ != 0;
  group_channels_ = output_.channels / groups_;
  terms_ = uint64_t{input_.channels} / groups_ * size_ * size_;
  pixels_ = uint64_t{output_.height} * output_.width;
  const uint64_t fitting = block_floats_max / (terms_ + group_channels_);
  const uint64_t rounds = (pixels_ + threads_ * std::max(fitting, block_pixels_unit) - 1) /
                          (threads_ * std::max(fitting, block_pixels_unit));
  block_pixels_ = std::min(
      pixels_,
      round_up((pixels_ + rounds * threads_ - 1) / (rounds * threads_), block_pixels_unit));
  is_kept_ = unfolding == Unfold::once && pixels_ <= output_.channels;
  call_channels_max_ = order_is_independent_of_channels() ? output_.channels : tile_channels;
}

bool Convolution::is_tile_boundary(uint32_t channel) const {
  return channel == output_.channels || channel % tile_channels == 0;
}

uint64_t Convolution::scratch_floats() const {
  if (!is_unfolded_) return 0;
  return terms_ * std::max(threads_ * block_pixels_, is_kept_ ? pixels_ : 0);
}

Status Convolution::run(Channels channels, const TileWeights& weights, const float* input,
                        float* output, float* scratch) const {
  WP_ASSERT(is_tile_boundary(channels.begin) && is_tile_boundary(channels.end));
  WP_ASSERT(channels.begin < channels.end && channels.end <= output_.channels);
  const uint64_t group_inputs = input_.elements() / groups_;
  for (uint32_t begin = channels.begin; begin < channels.end;) {
    const uint32_t group = begin / group_channels_;
    const uint32_t end = std::min(channels.end, (group + 1) * group_channels_);
    const uint32_t done = begin - channels.begin;
    const Piece piece{{begin, end},
                      weights.biases + done,
                      weights.weights + done * terms_,
                      input + group * group_inputs,
                      output + begin * pixels_,
                      is_kept_ && end - begin < group_channels_,
                      is_kept_ && begin > group * group_channels_};
    // Few pixels: all threads take one block, of which each computes some channels.
    Status status = blocks() > 1 ? run_blocks(piece, scratch) : run_channels(piece, scratch);
    if (!status) return status;
    begin = end;
  }
  return {};
}

Status Convolution::run_blocks(const Piece& piece, float* scratch) const {
  std::atomic<int> failed = dnnl_success;
  // Whoever is free takes the next one: another program, or this one's reads, may keep a thread.
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
  for (uint64_t number = 0; number < blocks(); ++number) {
    const Block block{number * block_pixels_,
                      std::min(block_pixels_, pixels_ - number * block_pixels_)};
    const uint64_t place = piece.is_kept ? number : static_cast<uint64_t>(omp_get_thread_num());
    const float* unfolded = surroundings(piece, block, scratch + place * terms_ * block_pixels_);
    const int status =
        multiply(piece, piece.channels, block, unfolded, is_unfolded_ ? block.pixels : pixels_);
    if (status != dnnl_success) failed = status;
  }
  if (failed != dnnl_success) return sgemm_failed(failed);
  return {};
}

Status Convolution::run_channels(const Piece& piece, float* scratch) const {
  const Block block{0, pixels_};
  const float* unfolded = surroundings(piece, block, scratch);
  const uint32_t parts = static_cast<uint32_t>(threads_) * parts_per_thread;
  const auto boundary = [&](uint32_t part) {
    const auto [begin, end] = piece.channels;
    if (part == parts) return end;
    const uint64_t even = begin + uint64_t{end - begin} * part / parts;
    return std::max(begin, static_cast<uint32_t>(round_down(even, tile_channels)));
  };
  std::atomic<int> failed = dnnl_success;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
  for (uint32_t part = 0; part < parts; ++part) {
    const Channels mine{boundary(part), boundary(part + 1)};
    if (mine.count() == 0) continue;
    const int status = multiply(piece, mine, block, unfolded, pixels_);
    if (status != dnnl_success) failed = status;
  }
  if (failed != dnnl_success) return sgemm_failed(failed);
  return {};
}

int Convolution::multiply(const Piece& piece, Channels channels, Block block, const float* unfolded,
                          uint64_t unfolded_stride) const {
  const auto terms = static_cast<dnnl_dim_t>(terms_);
  const auto pixels = static_cast<dnnl_dim_t>(block.pixels);
  for (uint32_t begin = channels.begin; begin < channels.end;) {
    const uint32_t limit = round_down(begin, call_channels_max_) + call_channels_max_;
    const uint32_t end = std::min(channels.end, limit);
    const uint64_t first = begin - piece.channels.begin;
    float* output = piece.output + first * pixels_ + block.begin;
    for (uint32_t channel = 0; channel < end - begin; ++channel) {
      std::fill_n(output + channel * pixels_, block.pixels, piece.biases[first + channel]);
    }
    // One thread computes it: oneDNN sees that it is called inside of a parallel section.
    const dnnl_status_t status = dnnl_sgemm(
        'N', 'N', end - begin, pixels, terms, 1, piece.weights + first * terms_, terms, unfolded,
        static_cast<dnnl_dim_t>(unfolded_stride), 1, output, static_cast<dnnl_dim_t>(pixels_));
    if (status != dnnl_success) return status;
    begin = end;
  }
  return dnnl_success;
}

const float* Convolution::surroundings(const Piece& piece, Block block, float* scratch) const {
  if (!is_unfolded_) return piece.input + block.begin;
  if (!piece.is_unfolded) unfold(piece.input, block, scratch);
  return scratch;
}

void Convolution::unfold(const float* input, Block block, float* unfolded) const {
  float* row = unfolded;
  for (uint32_t channel = 0; channel < input_.channels / groups_; ++channel) {
    const float* plane = input + uint64_t{channel} * input_.height * input_.width;
    for (uint32_t kernel_y = 0; kernel_y < size_; ++kernel_y) {
      for (uint32_t kernel_x = 0; kernel_x < size_; ++kernel_x, row += block.pixels) {
        unfold_row(plane, kernel_y, kernel_x, block, row);
      }
    }
  }
}

// What one weight of the kernel is multiplied with, for each of the block's pixels.
void Convolution::unfold_row(const float* plane, uint32_t kernel_y, uint32_t kernel_x, Block block,
                             float* row) const {
  if (stride_ == 1 && input_.width == output_.width) {
    return unfold_shifted(plane, kernel_y, kernel_x, block, row);
  }
  const int64_t height = input_.height;
  const int64_t width = input_.width;
  const int64_t stride = stride_;
  // Input column of output column x: x · stride + shift; inside of the picture from first to last.
  const int64_t shift = int64_t{kernel_x} - padding_;
  const int64_t inside_begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t inside_end =
      width - shift <= 0 ? 0 : std::min<int64_t>(output_.width, (width - shift - 1) / stride + 1);
  uint64_t y = block.begin / output_.width;
  uint64_t x = block.begin % output_.width;
  for (uint64_t done = 0; done < block.pixels; ++y, x = 0) {
    const uint64_t count = std::min(block.pixels - done, output_.width - x);
    const int64_t input_y = static_cast<int64_t>(y) * stride + kernel_y - padding_;
    float* to = row + done;
    done += count;
    if (input_y < 0 || input_y >= height) {
      std::fill_n(to, count, 0.0f);
      continue;
    }
    const int64_t begin = static_cast<int64_t>(x);
    const int64_t end = begin + static_cast<int64_t>(count);
    const int64_t first = std::clamp(inside_begin, begin, end);
    const int64_t last = std::clamp(inside_end, first, end);
    const float* line = plane + input_y * width;
    std::fill(to, to + (first - begin), 0.0f);
    for (int64_t column = first; column < last; ++column) {
      to[column - begin] = line[column * stride + shift];
    }
    std::fill(to + (last - begin), to + count, 0.0f);
  }
}

// The same where all of the picture is only moved, by some rows and columns: one copy for all of
// the block's rows, and then zeros over what came in from the row before or after.
void Convolution::unfold_shifted(const float* plane, uint32_t kernel_y, uint32_t kernel_x,
                                 Block block, float* row) const {
  const int64_t height = input_.height;
  const int64_t width = input_.width;
  const int64_t down = int64_t{kernel_y} - padding_;
  const int64_t right = std::clamp(int64_t{kernel_x} - padding_, -width, width);
  const auto begin = static_cast<int64_t>(block.begin);
  const int64_t end = begin + static_cast<int64_t>(block.pixels);
  // Output pixel p is input pixel p + shift, where that is in the picture.
  const int64_t shift = down * width + right;
  const int64_t first = std::clamp(std::max<int64_t>(0, -shift), begin, end);
  const int64_t last = std::clamp(height * width - std::max<int64_t>(0, shift), first, end);
  std::fill(row, row + (first - begin), 0.0f);
  std::copy(plane + first + shift, plane + last + shift, row + (first - begin));
  std::fill(row + (last - begin), row + (end - begin), 0.0f);
  if (right == 0) return;
  const int64_t outside = begin / width * width + (right < 0 ? 0 : width - right);
  for (int64_t column = outside; column < outside + std::abs(right); ++column) {
    const int64_t top = column < begin ? column + width : column;
    for (int64_t pixel = top; pixel < end; pixel += width) row[pixel - begin] = 0;
  }
}

}  // namespace weightpager::ops
