#include "tools/commands/reproduce/placed_passes.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/memory_room.h"
#include "pager/base/units.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/memory/portfolio.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/plan/cold_weights.h"
#include "tools/commands/reproduce/activation_sharing_figures.h"

namespace weightpager::tools {

using memory::ActivationLayout;
using memory::TensorUsage;

std::vector<Places> compared_places(memory::Tensors tensors) {
  Places apart = {"nothing shared", {}, 0};
  for (const TensorUsage& it : tensors) {
    apart.begin_bytes.push_back(apart.total_bytes);
    apart.total_bytes += it.size_bytes;
  }
  const auto objects = memory::choose_shared_objects(tensors).plan;
  const auto offsets = memory::choose_offsets(tensors, memory::Effort::until_bound).plan;
  return {std::move(apart),
          {"shared objects", begins_of(objects), objects.total_bytes()},
          {"offsets", begins_of(offsets), offsets.total_bytes}};
}

// ---- Memory traffic ----

Result<TrafficPass> TrafficPass::make(memory::Tensors tensors, const Places& places) {
  auto memory = AnonymousMemory::make(round_up(places.total_bytes, huge_page_bytes), "activations",
                                      "raise the memory limit (ulimit -v)");
  if (!memory) return forward_error(std::move(memory));
  TrafficPass made;
  made.memory_ = std::move(*memory);
  std::vector<std::tuple<uint32_t, bool, uint32_t>> order;  // operation, whether to write, tensor
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    order.emplace_back(tensors[i].first_operation, true, i);
    order.emplace_back(tensors[i].last_operation, false, i);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [operation, is_write, tensor] : order) {
    made.moves_.push_back({places.begin_bytes[tensor], tensors[tensor].size_bytes, is_write});
  }
  return made;
}

Status TrafficPass::run() {
  for (const Move& move : moves_) {
    std::byte* const begin = memory_.at(move.begin_bytes);
    if (move.is_write) {
      std::memset(begin, static_cast<int>(sum_ & 1), move.size_bytes);
      continue;
    }
    const std::span words(reinterpret_cast<const uint64_t*>(begin),
                          move.size_bytes / sizeof(uint64_t));
    sum_ = std::accumulate(words.begin(), words.end(), sum_);
  }
  return {};
}

// ---- Inferences ----

namespace {

/// The layout with its tensors at other places.
ActivationLayout moved(const network::Network& network, ActivationLayout layout,
                       const Places& places) {
  // The tensor is the one that is live when the layer runs and has the byte.
  const auto move = [&, before = layout.plan](uint64_t& offset_bytes, uint32_t operation) {
    for (uint32_t i = 0; i < layout.tensors.size(); ++i) {
      const TensorUsage& it = layout.tensors[i];
      const uint64_t begin = before.offset_bytes[i];
      const bool is_it = it.first_operation <= operation && operation <= it.last_operation &&
                         begin <= offset_bytes && offset_bytes < begin + it.size_bytes;
      if (!is_it) continue;
      offset_bytes += places.begin_bytes[i] - begin;
      return;
    }
    WP_ASSERT(false);
  };
  move(layout.input_offset_bytes, 0);
  for (uint32_t layer = 0; layer < network.layers.size(); ++layer) {
    move(layout.output_offset_bytes[layer], layer);
  }
  layout.plan = {places.begin_bytes, places.total_bytes};
  return layout;
}

/// Of a layer's weights, with what aligns the next layer's.
uint64_t aligned_weights(const network::Layer& layer) {
  return round_up(layer.weights(), memory::activation_alignment_bytes / sizeof(float));
}

}  // namespace

Result<std::shared_ptr<LoadedNetwork>> load_network(const std::string& name) {
  auto text = network::make_description(name);
  if (!text) return forward_error(std::move(text));
  auto network = network::parse_network(*text, name);
  if (!network) return forward_error(std::move(network));
  auto operations = ops::CpuOperations::make(*network, 1);
  if (!operations) return forward_error(std::move(operations));
  uint64_t weights = 0;
  uint64_t biases = 0;
  for (const network::Layer& it : network->layers) {
    weights += aligned_weights(it);
    biases = std::max(biases, it.channels_with_bias());
  }
  ActivationLayout layout = memory::lay_out(*network);
  std::vector<float> input = infer::some_input(*network);
  try {
    // So small that values do not grow from layer to layer; biases keep them from vanishing.
    constexpr float largest_weight = 1.0f / 64;
    return std::make_shared<LoadedNetwork>(
        LoadedNetwork{std::move(*network), std::move(layout), std::move(*operations),
                      std::move(input), plan::some_numbers(weights * sizeof(float), largest_weight),
                      plan::some_numbers(biases * sizeof(float))});
  } catch (const plan::NoRoom& it) {
    return tl::make_unexpected(it.error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory for a network's weights", "leave more memory");
  }
}

InferencePass::InferencePass(std::shared_ptr<LoadedNetwork> loaded, memory::Activations activations)
    : loaded_(std::move(loaded)), activations_(std::move(activations)) {}

Result<InferencePass> InferencePass::make(std::shared_ptr<LoadedNetwork> loaded,
                                          const Places& places) {
  Status fits = check_room({.what = "activations", .bytes = places.total_bytes},
                           "leave more memory, or take --quick");
  if (!fits) return forward_error(std::move(fits));
  auto activations =
      memory::Activations::make(loaded->network, moved(loaded->network, loaded->layout, places));
  if (!activations) return forward_error(std::move(activations));
  return InferencePass(std::move(loaded), std::move(*activations));
}

Status InferencePass::run() {
  LoadedNetwork& it = *loaded_;
  std::copy(it.input.begin(), it.input.end(), activations_.input());
  const float* weights = it.weights.data();
  for (uint32_t layer = 0; layer < it.network.layers.size(); ++layer) {
    const Status ran =
        it.operations.run(layer, it.operations.all_channels(layer), {it.biases.data(), weights},
                          activations_.inputs(layer), activations_.output(layer));
    if (!ran) return ran;
    weights += aligned_weights(it.network.layers[layer]);
  }
  return {};
}

std::vector<float> InferencePass::output() const {
  const auto last = static_cast<uint32_t>(loaded_->network.layers.size()) - 1;
  const float* const begin = activations_.output(last);
  return {begin, begin + loaded_->network.layers[last].output.elements()};
}

}  // namespace weightpager::tools
