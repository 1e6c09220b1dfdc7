#include "runtime/ops/cpu/max_pooling.h"

#include <algorithm>
#include <utility>

namespace weightpager::ops {
namespace {

constexpr Layout blocks = Layout::nChw8c;
constexpr uint32_t block_channels = 8;

uint32_t channels_at_a_time(const network::Shape& input) {
  const uint64_t block_bytes = picture_bytes({block_channels, input.height, input.width}, blocks);
  const uint64_t count = std::max<uint64_t>(MaxPooling::channels_bytes_max / block_bytes, 1);
  return static_cast<uint32_t>(std::min<uint64_t>(count * block_channels, input.channels));
}

}  // namespace

Result<MaxPooling> MaxPooling::make(const network::Layer& layer) {
  auto direct = Primitive::max_pool(layer);
  if (!direct) return forward_error(std::move(direct));
  MaxPooling made;
  if (!direct->is_without_vectors() || !made.prepare_detours(layer))
    made.direct_ = std::move(*direct);
  return made;
}

Status MaxPooling::prepare_detours(const network::Layer& layer) {
  const uint32_t channels = channels_at_a_time(layer.input);
  auto many = Detour::make(layer, channels);
  if (!many) return forward_error(std::move(many));
  many_ = std::move(*many);
  times_ = layer.input.channels / channels;
  const uint32_t channels_left = layer.input.channels % channels;
  if (channels_left == 0) return {};
  auto rest = Detour::make(layer, channels_left);
  if (!rest) return forward_error(std::move(rest));
  rest_ = std::move(*rest);
  return {};
}

uint64_t MaxPooling::scratch_floats() const {
  return !direct_ ? many_->input_floats_in_blocks + many_->output_floats_in_blocks : 0;
}

uint64_t MaxPooling::primitive_scratch_bytes() const {
  if (direct_) return direct_->scratch_bytes();
  return std::max(many_->maxima.scratch_bytes(), rest_ ? rest_->maxima.scratch_bytes() : 0);
}

void MaxPooling::use_primitive_scratch(void* memory) {
  if (direct_) return direct_->use_scratch(memory);
  many_->maxima.use_scratch(memory);
  if (rest_) rest_->maxima.use_scratch(memory);
}

Status MaxPooling::run(dnnl::stream& stream, const float* input, float* output, float* scratch) {
  if (direct_) return direct_->run(stream, {input, output});
  for (uint32_t time = 0; time < times_; ++time) {
    if (Status done = many_->run(stream, input, output, scratch); !done) return done;
    input += many_->input_floats;
    output += many_->output_floats;
  }
  return rest_ ? rest_->run(stream, input, output, scratch) : Status();
}

Result<MaxPooling::Detour> MaxPooling::Detour::make(network::Layer layer, uint32_t channels) {
  layer.input.channels = layer.output.channels = channels;
  auto into_blocks = LayoutChange::make(layer.input, Layout::nchw, blocks);
  if (!into_blocks) return forward_error(std::move(into_blocks));
  auto maxima = Primitive::max_pool(layer, blocks);
  if (!maxima) return forward_error(std::move(maxima));
  auto back = LayoutChange::make(layer.output, blocks, Layout::nchw);
  if (!back) return forward_error(std::move(back));
  return Detour{.into_blocks = std::move(*into_blocks),
                .maxima = std::move(*maxima),
                .back = std::move(*back),
                .input_floats = layer.input.elements(),
                .output_floats = layer.output.elements(),
                .input_floats_in_blocks = picture_floats(layer.input, blocks),
                .output_floats_in_blocks = picture_floats(layer.output, blocks)};
}

Status MaxPooling::Detour::run(dnnl::stream& stream, const float* input, float* output,
                               float* scratch) {
  float* const maxima_in_blocks = scratch + input_floats_in_blocks;
  if (Status done = into_blocks.run(input, scratch); !done) return done;
  if (Status done = maxima.run(stream, {scratch, maxima_in_blocks}); !done) return done;
  return back.run(maxima_in_blocks, output);
}

}  // namespace weightpager::ops
