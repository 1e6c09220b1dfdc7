// Computes a network and compares each section's output and the detections with what another
// program computed (darknet_outputs.c, opencv_outputs.py say in which form).
//
//   compare_outputs CFG WEIGHTS PICTURE SECTIONS DETECTIONS PROBABILITY_MIN OVERLAP_MAX
//
// Two outputs are equal if no value differs by more than a thousandth of the section's largest.
// Each section is computed from what this program computed before, so that errors add up as in use.
// Every layer is also computed in tiles, which must give the same bits.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "runtime/infer/detections.h"
#include "runtime/infer/image.h"
#include "runtime/memory/activations.h"
#include "runtime/network/parser.h"
#include "runtime/network/weight_source.h"
#include "runtime/ops/cpu/operations.h"

namespace weightpager {
namespace {

using Values = std::vector<float>;

constexpr double error_max = 1e-3;
constexpr uint32_t small_tile_channels = 48;

template <typename T>
T or_exit(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "compare_outputs: {}\n", result.error().message);
  std::exit(1);
}
void or_exit(const Status& status) {
  if (status) return;
  fmt::print(stderr, "compare_outputs: {}\n", status.error().message);
  std::exit(1);
}

[[noreturn]] void differ(const std::string& what) {
  fmt::print("DIFFERENT: {}\n", what);
  std::exit(1);
}

class Reference {
 public:
  explicit Reference(const std::string& path) : file_(path, std::ios::binary) {}

  Values next() {
    uint32_t count = 0;
    file_.read(reinterpret_cast<char*>(&count), sizeof(count));
    Values values(count);
    file_.read(reinterpret_cast<char*>(values.data()), count * sizeof(float));
    if (!file_) differ("the reference has fewer sections");
    return values;
  }
  bool is_at_end() { return file_.peek() == std::ifstream::traits_type::eof(); }

 private:
  std::ifstream file_;
};

/// Largest difference as a share of the largest value; infinite if there is what is no number.
double relative_error(const Values& expected, const float* found) {
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i]) || !std::isfinite(found[i])) return INFINITY;
    difference = std::max(difference, std::abs(double{expected[i]} - found[i]));
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  return difference == 0 ? 0 : difference / largest;
}

class Inference {
 public:
  Inference(const network::Network& network, const std::string& weights)
      : network_(network),
        source_(or_exit(network::WeightSource::open(weights, network))),
        file_(weights, std::ios::binary),
        activations_(or_exit(memory::Activations::make(network))),
        operations_(or_exit(ops::CpuOperations::make(network, omp_get_num_procs()))) {}

  const memory::Activations& activations() const { return activations_; }

  void set_input(const infer::Image& image) {
    std::copy(image.values.begin(), image.values.end(), activations_.input());
  }

  const float* run(uint32_t layer) {
    const float* weights = read_weights(layer);
    run(layer, operations_.all_channels(layer), weights);
    if (weights != nullptr) run_tiles(layer, weights);
    return activations_.output(layer);
  }

 private:
  void run(uint32_t layer, ops::Channels channels, const float* weights) {
    const network::Layer& it = network_.layers[layer];
    ops::TileWeights tile;
    if (weights != nullptr) {
      tile = {source_.biases(layer) + channels.begin,
              weights + channels.begin * (it.weights() / it.output.channels)};
    }
    or_exit(operations_.run(layer, channels, tile, activations_.inputs(layer),
                            activations_.output(layer)));
  }

  void run_tiles(uint32_t layer, const float* weights) {
    const uint32_t channels = operations_.all_channels(layer).end;
    float* output = activations_.output(layer);
    const Values whole(output, output + network_.layers[layer].output.elements());
    std::fill_n(output, whole.size(), NAN);
    uint32_t begin = 0;
    for (uint32_t end = 1; end <= channels; ++end) {
      const bool is_enough = end == channels || end - begin >= small_tile_channels;
      if (!is_enough || !operations_.is_tile_boundary(layer, end)) continue;
      run(layer, {begin, end}, weights);
      begin = end;
    }
    if (std::memcmp(whole.data(), output, whole.size() * sizeof(float)) != 0) {
      differ(fmt::format("section {} whole and in tiles", layer));
    }
  }

  const float* read_weights(uint32_t layer) {
    const network::Piece piece = source_.whole(layer);
    const network::FileRange range = source_.range(piece);
    if (range.length_bytes == 0) return nullptr;
    bytes_.resize(range.length_bytes);
    file_.seekg(static_cast<std::streamoff>(range.offset_bytes));
    file_.read(reinterpret_cast<char*>(bytes_.data()),
               static_cast<std::streamsize>(range.needed_bytes));
    return or_exit(source_.take_in(piece, bytes_));
  }

  const network::Network& network_;
  network::WeightSource source_;
  std::ifstream file_;
  std::vector<std::byte> bytes_;
  memory::Activations activations_;
  ops::CpuOperations operations_;
};

void compare_sections(const network::Network& network, const infer::Image& input,
                      Reference reference, Inference& inference) {
  const double input_error = relative_error(reference.next(), input.values.data());
  if (input_error > 0) differ(fmt::format("the network's input, by {:.1e}", input_error));
  double worst = 0;
  uint32_t worst_section = 0;
  uint32_t compared = 0;
  for (uint32_t number = 0; number < network.layers.size(); ++number) {
    const network::Layer& layer = network.layers[number];
    const float* output = inference.run(number);
    const Values expected = reference.next();
    if (expected.empty()) continue;
    const char* kind = network::section_name(layer.operation);
    if (expected.size() != layer.output.elements()) {
      differ(fmt::format("section {} ({}) has {} values, there {}", number, kind,
                         layer.output.elements(), expected.size()));
    }
    const double error = relative_error(expected, output);
    if (!(error <= error_max)) {
      differ(fmt::format("section {} ({}), by {:.1e} of its largest value", number, kind, error));
    }
    ++compared;
    if (error > worst) {
      worst = error;
      worst_section = number;
    }
  }
  if (!reference.is_at_end()) differ("the reference has more sections");
  fmt::print("{} of {} sections equal, the worst ({}) within {:.1e} of its largest value\n",
             compared, network.layers.size(), worst_section, worst);
}

std::vector<infer::Detection> read_detections(const std::string& path) {
  std::ifstream file(path);
  std::vector<infer::Detection> detections;
  infer::Detection it;
  while (file >> it.class_index >> it.probability >> it.box.x >> it.box.y >> it.box.width >>
         it.box.height) {
    detections.push_back(it);
  }
  return detections;
}

bool are_equal(const infer::Detection& left, const infer::Detection& right) {
  const auto near = [](float a, float b) {
    return std::abs(a - b) <= error_max * std::max(1.0f, std::abs(a));
  };
  return left.class_index == right.class_index && near(left.probability, right.probability) &&
         near(left.box.x, right.box.x) && near(left.box.y, right.box.y) &&
         near(left.box.width, right.box.width) && near(left.box.height, right.box.height);
}

void compare_detections(std::vector<infer::Detection> expected,
                        const std::vector<infer::Detection>& found) {
  if (expected.size() != found.size()) {
    differ(fmt::format("{} detections, there {}", found.size(), expected.size()));
  }
  for (const infer::Detection& detection : found) {
    const auto same = std::find_if(expected.begin(), expected.end(),
                                   [&](const auto& it) { return are_equal(it, detection); });
    if (same == expected.end()) {
      differ(fmt::format("a detection of class {} with probability {}", detection.class_index,
                         detection.probability));
    }
    expected.erase(same);
  }
  fmt::print("{} detections equal\n", found.size());
}

int compare(char** arguments) {
  const network::Network network = or_exit(network::read_network(arguments[1]));
  const infer::Image picture = or_exit(infer::read_image(arguments[3], network.input.channels));
  const infer::Image input = infer::letterbox(picture, network.input.width, network.input.height);
  Inference inference(network, arguments[2]);
  inference.set_input(input);
  compare_sections(network, input, Reference(arguments[4]), inference);
  const infer::DetectionLimits limits{static_cast<float>(std::atof(arguments[6])),
                                      static_cast<float>(std::atof(arguments[7]))};
  compare_detections(read_detections(arguments[5]),
                     infer::find_detections(network, inference.activations(),
                                            {picture.shape.width, picture.shape.height}, limits));
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int count, char** arguments) {
  if (count != 8) {
    fmt::print(stderr, "usage: see the head of compare_outputs.cc\n");
    return 2;
  }
  return weightpager::compare(arguments);
}
