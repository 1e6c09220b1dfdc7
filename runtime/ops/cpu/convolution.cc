#include "runtime/ops/cpu/convolution.h"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::ops {
namespace {

// The most floats of a block's unfolded surroundings and its outputs together: a processor's share
// of the second-level cache, doubled because sgemm reads the surroundings only once.
constexpr uint64_t block_floats_max = 2 * MiB / sizeof(float);
// With several parts, the others wait little for a thread that was interrupted.
constexpr uint32_t parts_per_thread = 4;
// As many pixels as one or two vectors hold.
constexpr uint64_t block_pixels_unit = 16;

// Where sgemm's order of addition depends on the number of channels, each call computes this many
// channels. Each call packs the unfolded picture anew: with 64, and with threads that help each
// other, YOLOv4 takes 0.75 to 0.8 of the time that it takes with 16 (`infer -p pre`, AMD EPYC with
// AVX2, 2026-11-23). But then no tile can have fewer than 64. So calls compute 16 if 64 channels
// have many weights, or if there is only one pixel, because then reading the weights takes most of
// the time.
constexpr uint32_t call_channels = 64;
constexpr uint64_t call_floats_max = 5 * MiB / 4 / sizeof(float);

// Whether sgemm adds up in the same order whatever the number of channels.
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

// The number of terms that add up to one output value.
uint64_t terms_of(const network::Layer& layer) { return layer.weights() / layer.output.channels; }

// The factor for values below zero, if the activation does nothing but multiply these.
std::optional<float> slope_below_zero(network::Activation activation) {
  switch (activation) {
    case network::Activation::linear:
      return 1.0f;
    case network::Activation::leaky:
      return 0.1f;
    case network::Activation::relu:
      return 0.0f;
    default:
      return std::nullopt;
  }
}

Status sgemm_failed(int status) {
  return fail(fmt::format("oneDNN failed in a matrix product (status {})", status),
              "status 1 is want of memory: leave more for others, or make the window smaller");
}

}  // namespace

uint32_t channel_step(const network::Layer& layer) {
  if (layer.weights() == 0 || order_is_independent_of_channels()) return tile_channels;
  const bool is_one_pixel = layer.output.height * layer.output.width == 1;
  const bool is_heavy = call_channels * terms_of(layer) > call_floats_max;
  return is_one_pixel || is_heavy ? tile_channels : call_channels;
}

bool applies_activation(const network::Layer& layer) {
  return slope_below_zero(network::activation_of(layer)).has_value();
}

Convolution::Convolution(const network::Layer& layer, int threads, Unfold unfolding)
    : input_(layer.input), output_(layer.output), threads_(threads) {
  if (const auto* it = std::get_if<network::Convolutional>(&layer.operation)) {
    groups_ = it->groups;
    size_ = it->size;
    stride_ = it->stride;
    padding_ = it->padding;
  } else {
    // Every input value is a channel of one pixel.
    WP_ASSERT(std::holds_alternative<network::Connected>(layer.operation));
    input_ = {static_cast<uint32_t>(layer.input.elements()), 1, 1};
  }
  slope_below_zero_ = slope_below_zero(network::activation_of(layer)).value_or(1.0f);
  is_unfolded_ = size_ != 1 || stride_ != 1 || padding_ != 0;
  group_channels_ = output_.channels / groups_;
  terms_ = terms_of(layer);
  pixels_ = uint64_t{output_.height} * output_.width;
  const uint64_t fitting = block_floats_max / (terms_ + group_channels_);
  const uint64_t rounds = (pixels_ + threads_ * std::max(fitting, block_pixels_unit) - 1) /
                          (threads_ * std::max(fitting, block_pixels_unit));
  block_pixels_ = std::min(
      pixels_,
      round_up((pixels_ + rounds * threads_ - 1) / (rounds * threads_), block_pixels_unit));
  is_kept_ = unfolding == Unfold::once && pixels_ <= output_.channels;
  channel_step_ = channel_step(layer);
  call_channels_max_ = order_is_independent_of_channels() ? output_.channels : channel_step_;
}

bool Convolution::is_tile_boundary(uint32_t channel) const {
  return channel == output_.channels || channel % channel_step_ == 0;
}

uint64_t Convolution::scratch_floats() const {
  if (!is_unfolded_) return 0;
  return terms_ * std::max(threads_ * block_pixels_, is_kept_ ? pixels_ : 0);
}

Status Convolution::run(Channels channels, const TileWeights& weights, const float* input,
                        float* output, float* scratch,
                        const std::function<void()>& meanwhile) const {
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
    const bool is_first = begin == channels.begin;
    Status status = run_piece(piece, scratch, is_first ? meanwhile : std::function<void()>());
    if (!status) return status;
    begin = end;
  }
  return {};
}

// Each thread that is free takes the next block, because other programs, or this program's reads,
// may delay some threads. The last blocks are computed in parts, so that a thread that finds no
// more blocks can help the others.
Status Convolution::run_piece(const Piece& piece, float* scratch,
                              const std::function<void()>& meanwhile) const {
  const auto threads = static_cast<uint64_t>(threads_);
  const uint32_t parts = parts_of(piece.channels);
  std::vector<LastBlock> last_blocks(threads);
  std::atomic<uint64_t> next_block = 0;
  std::atomic<int> failed = dnnl_success;
  const auto compute = [&](const Channels& channels, Block block, const float* unfolded) {
    if (channels.count() == 0) return;
    const int status =
        multiply(piece, channels, block, unfolded, is_unfolded_ ? block.pixels : pixels_);
    if (status != dnnl_success) failed = status;
  };
  const auto compute_parts_of = [&](LastBlock& last) {
    for (;;) {
      const uint32_t seen = last.next_part.load(std::memory_order_acquire);
      if (seen == LastBlock::is_coming) {
        // Its thread may have lost its processor: whoever spins here would keep it away.
        last.next_part.wait(LastBlock::is_coming, std::memory_order_acquire);
        continue;
      }
      if (seen >= parts) return;
      const uint32_t part = last.next_part.fetch_add(1);
      if (part < parts) compute(part_of(piece.channels, part, parts), last.block, last.unfolded);
    }
  };
#pragma omp parallel num_threads(threads_)
  {
    const auto thread = static_cast<uint64_t>(omp_get_thread_num());
    LastBlock& own = last_blocks[thread];
    if (thread == 0 && meanwhile) meanwhile();
    for (uint64_t number; (number = next_block.fetch_add(1)) < blocks();) {
      const bool is_last = number + threads >= blocks();
      if (is_last) own.next_part.store(LastBlock::is_coming);
      const Block block{number * block_pixels_,
                        std::min(block_pixels_, pixels_ - number * block_pixels_)};
      const uint64_t place = piece.is_kept ? number : thread;
      const float* unfolded = surroundings(piece, block, scratch + place * terms_ * block_pixels_);
      if (!is_last) {
        compute(piece.channels, block, unfolded);
        continue;
      }
      own.block = block;
      own.unfolded = unfolded;
      own.next_part.store(0, std::memory_order_release);
      own.next_part.notify_all();
      compute_parts_of(own);
    }
    for (LastBlock& last : last_blocks) compute_parts_of(last);
  }
  if (failed != dnnl_success) return sgemm_failed(failed);
  return {};
}

// The number of parts of a last block. If there are other blocks, parts of few channels are not
// worth their calls.
uint32_t Convolution::parts_of(Channels channels) const {
  if (threads_ == 1) return 1;
  const auto threads = static_cast<uint64_t>(threads_);
  const auto parts =
      static_cast<uint32_t>(threads * parts_per_thread / std::min(threads, blocks()));
  if (blocks() == 1) return parts;
  return std::min(parts, std::max(channels.count() / call_channels, 1u));
}

// Cuts the channels of a piece into `parts` runs, and returns run `part`. They are nearly equal;
// some may be empty.
Channels Convolution::part_of(Channels whole, uint32_t part, uint32_t parts) const {
  const auto boundary = [&](uint32_t number) {
    if (number == parts) return whole.end;
    const uint64_t even = whole.begin + uint64_t{whole.count()} * number / parts;
    return std::max(whole.begin, static_cast<uint32_t>(round_down(even, channel_step_)));
  };
  return {boundary(part), boundary(part + 1)};
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
    // One thread computes the product: oneDNN notices that it is called within a parallel section.
    const dnnl_status_t status = dnnl_sgemm(
        'N', 'N', end - begin, pixels, terms, 1, piece.weights + first * terms_, terms, unfolded,
        static_cast<dnnl_dim_t>(unfolded_stride), 0, output, static_cast<dnnl_dim_t>(pixels_));
    if (status != dnnl_success) return status;
    for (uint32_t channel = 0; channel < end - begin; ++channel) {
      finish(output + channel * pixels_, block.pixels, piece.biases[first + channel]);
    }
    begin = end;
  }
  return dnnl_success;
}

// Adds the bias and applies the activation while the sums are in the cache. Compilers make vector
// code of std::max.
void Convolution::finish(float* sums, uint64_t count, float bias) const {
  const float slope = slope_below_zero_;
  if (slope == 0) {
#pragma omp simd
    for (uint64_t i = 0; i < count; ++i) sums[i] = std::max(sums[i] + bias, 0.0f);
    return;
  }
#pragma omp simd
  for (uint64_t i = 0; i < count; ++i) {
    const float value = sums[i] + bias;
    sums[i] = std::max(value, value * slope);
  }
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

// The values that one weight of the kernel is multiplied with, for each of the block's pixels.
void Convolution::unfold_row(const float* plane, uint32_t kernel_y, uint32_t kernel_x, Block block,
                             float* row) const {
  if (stride_ == 1 && input_.width == output_.width) {
    return unfold_shifted(plane, kernel_y, kernel_x, block, row);
  }
  const int64_t height = input_.height;
  const int64_t width = input_.width;
  const int64_t stride = stride_;
  // Output column x has input column x · stride + shift, which is in the picture from inside_begin
  // to before inside_end.
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

// The same if the picture is only moved by some rows and columns: one copy for all of the block's
// rows, and then zeros over the values that came in from the row before or after.
void Convolution::unfold_shifted(const float* plane, uint32_t kernel_y, uint32_t kernel_x,
                                 Block block, float* row) const {
  const int64_t height = input_.height;
  const int64_t width = input_.width;
  const int64_t down = int64_t{kernel_y} - padding_;
  const int64_t right = std::clamp(int64_t{kernel_x} - padding_, -width, width);
  const auto begin = static_cast<int64_t>(block.begin);
  const int64_t end = begin + static_cast<int64_t>(block.pixels);
  // Output pixel p is input pixel p + shift, if that is in the picture.
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
