// Layouts of networks: nothing that is needed is overwritten, and what need not have memory of its
// own has none.
#include "runtime/memory/activations.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "pager/base/units.h"
#include "runtime/memory/bounds.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "tests/memory/overlaps.h"

namespace weightpager::memory {
namespace {

using network::Layer;
using network::Network;
using network::network_input;
using network::Operation;
using network::Shape;

class Builder {
 public:
  explicit Builder(const Shape& input) { network.input = input; }

  /// Returns the layer's number.
  uint32_t add(Operation operation, std::vector<uint32_t> inputs, const Shape& output) {
    Layer layer;
    layer.operation = std::move(operation);
    layer.inputs = std::move(inputs);
    layer.input = shape(layer.inputs[0]);
    layer.output = output;
    network.layers.push_back(layer);
    return static_cast<uint32_t>(network.layers.size()) - 1;
  }
  uint32_t convolutional(uint32_t input, const Shape& output) {
    return add(network::Convolutional{.filters = output.channels}, {input}, output);
  }
  const Shape& shape(uint32_t layer) const {
    return layer == network_input ? network.input : network.layers[layer].output;
  }

  Network network;
};

constexpr Shape shape{4, 8, 8};

TEST(Activations, ShortcutOverwritesItsFirstInput) {
  Builder it(shape);
  const uint32_t first = it.convolutional(network_input, shape);
  const uint32_t second = it.convolutional(first, shape);
  const uint32_t sum = it.add(network::Shortcut{}, {second, first}, shape);
  it.convolutional(sum, shape);
  const ActivationLayout layout = lay_out(it.network);
  EXPECT_EQ(layout.output_offset_bytes[sum], layout.output_offset_bytes[second]);
  EXPECT_EQ(layout.plan.total_bytes, 2 * shape.size_bytes());
  EXPECT_EQ(layout.unshared_bytes, 5 * shape.size_bytes());
}

TEST(Activations, ShortcutKeepsAnInputThatIsNeededLater) {
  Builder it(shape);
  const uint32_t first = it.convolutional(network_input, shape);
  const uint32_t second = it.convolutional(first, shape);
  const uint32_t sum = it.add(network::Shortcut{}, {second, first}, shape);
  it.add(network::Route{}, {sum, second}, {8, 8, 8});
  const ActivationLayout layout = lay_out(it.network);
  EXPECT_NE(layout.output_offset_bytes[sum], layout.output_offset_bytes[second]);
}

TEST(Activations, ShortcutOfALayerAndAViewOfItIsNotInPlace) {
  Builder it(shape);
  const uint32_t first = it.convolutional(network_input, shape);
  const uint32_t view = it.add(network::Dropout{}, {first}, shape);
  const uint32_t sum = it.add(network::Shortcut{}, {view, first}, shape);
  const ActivationLayout layout = lay_out(it.network);
  EXPECT_EQ(layout.output_offset_bytes[view], layout.output_offset_bytes[first]);
  EXPECT_NE(layout.output_offset_bytes[sum], layout.output_offset_bytes[first]);
}

TEST(Activations, ARouteOfOneInputIsAViewOfItsPart) {
  Builder it(shape);
  const uint32_t whole = it.convolutional(network_input, shape);
  const uint32_t half = it.add(network::Route{.groups = 2, .group = 1}, {whole}, {2, 8, 8});
  const ActivationLayout layout = lay_out(it.network);
  EXPECT_EQ(layout.output_offset_bytes[half],
            layout.output_offset_bytes[whole] + shape.size_bytes() / 2);
}

TEST(Activations, MemoryIsWhereTheLayoutSays) {
  Builder it(shape);
  const uint32_t first = it.convolutional(network_input, shape);
  it.add(network::Route{}, {network_input, first}, {8, 8, 8});
  auto made = Activations::make(it.network);
  ASSERT_TRUE(made) << made.error().message;
  const Activations activations = std::move(*made);
  ASSERT_EQ(activations.inputs(1).size(), 2u);
  EXPECT_EQ(activations.inputs(1)[0], activations.input());
  EXPECT_EQ(activations.inputs(1)[1], activations.output(first));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(activations.output(1)) % activation_alignment_bytes, 0u);
  std::fill_n(activations.output(1), 2 * shape.elements(), 1.0f);
}

TEST(Activations, WhatALayerNeedsWhileItRunsLiesApartFromWhatIsNeededThen) {
  Builder it(shape);
  const uint32_t first = it.convolutional(network_input, shape);
  const uint32_t second = it.convolutional(first, shape);
  it.convolutional(second, shape);
  std::vector<LayerMemory> memory = plain_memory(it.network);
  memory[second].changed_bytes[0] = 2 * shape.size_bytes();
  memory[second].workspace_bytes = 640;
  const ActivationLayout layout = lay_out(it.network, memory);
  EXPECT_TRUE(find_overlaps(layout.tensors, layout.plan).empty());
  EXPECT_EQ(layout.plan.total_bytes, 4 * shape.size_bytes() + 640);
  auto made = Activations::make(it.network, layout);
  ASSERT_TRUE(made) << made.error().message;
  // Everything that the second layer works on, each of it whole.
  std::fill_n(made->output(first), shape.elements(), 1.0f);
  std::fill_n(made->output(second), shape.elements(), 2.0f);
  std::fill_n(made->changed(second)[0], 2 * shape.elements(), 3.0f);
  std::fill_n(made->workspace(second), 640 / sizeof(float), 4.0f);
  EXPECT_EQ(made->output(first)[shape.elements() - 1], 1.0f);
  EXPECT_EQ(made->output(second)[0], 2.0f);
  EXPECT_EQ(made->changed(second)[0][2 * shape.elements() - 1], 3.0f);
}

TEST(Activations, WhatTakesACopyIsNoView) {
  Builder it(shape);
  const uint32_t first = it.convolutional(network_input, shape);
  const uint32_t view = it.add(network::Dropout{}, {first}, shape);
  std::vector<LayerMemory> memory = plain_memory(it.network);
  memory[view].changed_bytes[0] = shape.size_bytes();
  const ActivationLayout layout = lay_out(it.network, memory);
  EXPECT_NE(layout.output_offset_bytes[view], layout.output_offset_bytes[first]);
}

TEST(Activations, MoreThanThereIsIsAnError) {
  Builder it({1u << 15, 1u << 15, 1u << 15});
  it.convolutional(network_input, it.network.input);
  const auto made = Activations::make(it.network);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("no memory for activations"), std::string::npos);
}

Network described(const std::string& name) {
  const auto description = network::make_description(name);
  EXPECT_TRUE(description);
  auto network = network::parse_network(*description, name);
  EXPECT_TRUE(network);
  return std::move(*network);
}

TEST(Activations, MeetTheBoundOnTheNetworksOfDemandLayering) {
  for (const char* name : {"yolov3", "yolov4", "yolov4-p6", "resnet152", "densenet201"}) {
    const ActivationLayout layout = lay_out(described(name));
    EXPECT_EQ(layout.plan.total_bytes, offsets_lower_bound_bytes(layout.tensors)) << name;
    EXPECT_TRUE(find_overlaps(layout.tensors, layout.plan).empty()) << name;
  }
}

uint64_t resident_bytes(const void* begin, uint64_t length_bytes) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_resident(length_bytes / page_bytes);
  EXPECT_EQ(mincore(const_cast<void*>(begin), length_bytes, is_resident.data()), 0);
  const auto pages = std::count_if(is_resident.begin(), is_resident.end(),
                                   [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<uint64_t>(pages) * page_bytes;
}

// When every layer has written its output, what is resident of the arena is what was planned, but
// for the rest of its last page, which may be a huge one.
TEST(Activations, TakeTheMemoryThatWasPlanned) {
  const Network network = described("squeezenet");
  auto activations = Activations::make(network);
  ASSERT_TRUE(activations) << activations.error().message;
  const ActivationLayout& layout = activations->layout();
  std::fill_n(activations->input(), network.input.elements(), 1.0f);
  for (uint32_t number = 0; number < network.layers.size(); ++number) {
    std::fill_n(activations->output(number), network.layers[number].output.elements(), 1.0f);
  }
  const auto lowest =
      std::min_element(layout.output_offset_bytes.begin(), layout.output_offset_bytes.end());
  ASSERT_EQ(*lowest, 0u);
  const void* const begin =
      activations->output(static_cast<uint32_t>(lowest - layout.output_offset_bytes.begin()));
  const uint64_t planned_bytes = layout.plan.total_bytes;
  const uint64_t resident = resident_bytes(begin, round_up(planned_bytes, huge_page_bytes));
  EXPECT_GE(resident, planned_bytes);
  EXPECT_LE(resident, round_up(planned_bytes, huge_page_bytes));
  EXPECT_LT(planned_bytes, layout.unshared_bytes / 2);
}

Network any_network() {
  const auto pick = [](uint32_t end) { return *rc::gen::inRange<uint32_t>(0, end); };
  Builder it({4, *rc::gen::inRange<uint32_t>(1, 4), *rc::gen::inRange<uint32_t>(1, 4)});
  const uint32_t layers = 1 + pick(25);
  for (uint32_t number = 0; number < layers; ++number) {
    const uint32_t last = number == 0 ? network_input : number - 1;
    const uint32_t earlier = number == 0 || pick(6) == 0 ? network_input : pick(number);
    const Shape input = it.shape(last);
    switch (pick(8)) {
      case 0:
        it.add(network::Dropout{}, {last}, input);
        break;
      case 1:
        it.add(network::Softmax{}, {last}, input);
        break;
      case 2:
        it.add(network::Yolo{}, {last}, input);
        break;
      case 3:
        it.add(network::Route{}, {earlier}, it.shape(earlier));
        break;
      case 4: {
        const Shape whole = it.shape(earlier);
        const uint32_t groups = whole.channels % 2 == 0 ? 2 : 1;
        it.add(network::Route{groups, pick(groups)}, {earlier},
               {whole.channels / groups, whole.height, whole.width});
        break;
      }
      case 5:
        it.add(network::Shortcut{}, {last, earlier}, input);
        break;
      case 6: {
        const uint32_t channels = input.channels + it.shape(earlier).channels;
        if (channels > 64) break;
        it.add(network::Route{}, {last, earlier}, {channels, input.height, input.width});
        break;
      }
      default:
        it.convolutional(last, {1 + pick(12), input.height, input.width});
    }
    // What would have been too large.
    if (it.network.layers.size() <= number) it.convolutional(last, input);
  }
  return it.network;
}

// Runs a network in which every layer that computes something fills its output with a value of its
// own, and checks that each later layer finds the values that it expects.
class StampedNetwork {
 public:
  explicit StampedNetwork(const Network& network)
      : network_(network),
        layout_(lay_out(network)),
        memory_(layout_.plan.total_bytes / sizeof(float), -1.0f) {}

  void run() {
    fill(layout_.input_offset_bytes, network_.input, input_stamp_);
    for (uint32_t number = 0; number < network_.layers.size(); ++number) run(number);
    for (uint32_t number = 0; number < network_.layers.size(); ++number) {
      const bool is_yolo = std::holds_alternative<network::Yolo>(network_.layers[number].operation);
      if (is_yolo || number + 1 == network_.layers.size()) {
        RC_ASSERT(holds(number, network_.layers[number].output));
      }
    }
  }

 private:
  void run(uint32_t number) {
    const Layer& layer = network_.layers[number];
    for (const uint32_t input : layer.inputs) {
      RC_ASSERT(
          holds(input, input == network_input ? network_.input : network_.layers[input].output));
    }
    const bool is_view =
        std::holds_alternative<network::Dropout>(layer.operation) ||
        (std::holds_alternative<network::Route>(layer.operation) && layer.inputs.size() == 1);
    if (is_view) {
      stamps_.push_back(stamp(layer.inputs[0]));
      RC_ASSERT(holds(number, layer.output));
      return;
    }
    stamps_.push_back(static_cast<float>(number + 1));
    fill(layout_.output_offset_bytes[number], layer.output, stamps_.back());
  }

  float stamp(uint32_t layer) const {
    return layer == network_input ? input_stamp_ : stamps_[layer];
  }
  float* at(uint64_t offset_bytes) { return memory_.data() + offset_bytes / sizeof(float); }
  void fill(uint64_t offset_bytes, const Shape& of, float value) {
    RC_ASSERT(offset_bytes + of.size_bytes() <= layout_.plan.total_bytes);
    std::fill_n(at(offset_bytes), of.elements(), value);
  }
  bool holds(uint32_t layer, const Shape& of) {
    const float* values = at(layer == network_input ? layout_.input_offset_bytes
                                                    : layout_.output_offset_bytes[layer]);
    return std::all_of(values, values + of.elements(),
                       [&](float value) { return value == stamp(layer); });
  }

  static constexpr float input_stamp_ = 0.5f;
  const Network& network_;
  ActivationLayout layout_;
  std::vector<float> memory_;
  std::vector<float> stamps_;
};

TEST(Activations, NothingIsOverwrittenThatIsNeeded) {
  EXPECT_TRUE(rc::check([] {
    const Network network = any_network();
    StampedNetwork(network).run();
    const ActivationLayout layout = lay_out(network);
    RC_ASSERT(find_overlaps(layout.tensors, layout.plan).empty());
    RC_ASSERT(layout.plan.total_bytes >= offsets_lower_bound_bytes(layout.tensors));
  }));
}

}  // namespace
}  // namespace weightpager::memory
