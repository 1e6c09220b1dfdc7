// Made networks: those of the papers, to the byte, with weights that keep activations in bounds.
#include "runtime/network/synthetic/make_network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "runtime/network/packed_file.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/network/weights_file.h"
#include "tests/base/lacks.h"
#include "tests/network/network_files.h"

namespace weightpager::network {
namespace {

Network described(const std::string& name) {
  const Result<std::string> text = make_description(name);
  EXPECT_TRUE(text) << name;
  return text ? parsed(*text) : Network{};
}

/// As the paper prints sizes: MiB with one decimal.
std::string in_mib(uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1024 * 1024));
}

// --- the Demand Layering paper ------------------------------------------------------------------

struct TableRow {
  const char* name;
  const char* model_mib;
  size_t layers;
  const char* largest_layer_mib;
};

TEST(MadeNetworks, AreTableOneOfTheDemandLayeringPaper) {
  for (const TableRow& row : {TableRow{"yolov3", "236.5", 107, "18.0"},
                              {"yolov4", "245.8", 162, "18.0"},
                              {"yolov4-p6", "487.2", 305, "36.0"},
                              {"resnet152", "219.6", 206, "9.0"},
                              {"densenet201", "65.6", 306, "5.9"}}) {
    const Network network = described(row.name);
    EXPECT_EQ(in_mib(network.weights_file_bytes()), row.model_mib) << row.name;
    EXPECT_EQ(network.layers.size(), row.layers) << row.name;
    EXPECT_EQ(in_mib(network.largest_folded_bytes()), row.largest_layer_mib) << row.name;
  }
}

/// A line for each layer: kind, output, bytes in both kinds of file, and how convolutions are made.
std::string layer_lines(const Network& network) {
  std::string lines;
  for (const Layer& layer : network.layers) {
    lines += fmt::format("{} {} {} {} {} {}", section_name(layer.operation), layer.output.channels,
                         layer.output.height, layer.output.width, layer.folded_bytes(),
                         layer.raw_bytes());
    if (const auto* it = std::get_if<Convolutional>(&layer.operation))
      lines += fmt::format(" {} {} {} {} {}", layer.input.channels, it->size, it->stride,
                           it->is_batch_normalized ? 1 : 0, activation_name(it->activation));
    lines += "\n";
  }
  return lines;
}

struct KnownLayers {
  const char* name;
  uint64_t checksum;
};

// The checksums are of lines that were made from the layers of the paper's own .cfg files, as its
// repository had them in 2023 (AveesLab/demand-layering), in a table of this project's research.
TEST(MadeNetworks, HaveEveryLayerOfThePapersOwnDescriptions) {
  for (const KnownLayers& known : {KnownLayers{"yolov3", 0xe7809b0bbeae776d},
                                   {"yolov4", 0xc153a18b45cedabf},
                                   {"yolov4-p6", 0xfdf1dd7a80c30e3f},
                                   {"resnet152", 0x89615e23e8ae80fb},
                                   {"densenet201", 0x2af127403b909c33}}) {
    const std::string lines = layer_lines(described(known.name));
    EXPECT_EQ(checksum(std::as_bytes(std::span(lines))), known.checksum) << known.name;
  }
}

TEST(MadeNetworks, AllAreReadAndHaveWeightsOfAllSizes) {
  const std::vector<std::string> names = described_networks();
  EXPECT_EQ(names.size(), 18u);
  for (const std::string& name : names) {
    const Network network = described(name);
    ASSERT_FALSE(network.layers.empty()) << name;
    EXPECT_EQ(make_description(name)->substr(0, name.size() + 3), "# " + name + ",");
    // Without whitespace and comments, nothing that Darknet 2018 reads differently is in there.
    EXPECT_EQ(make_description(name)->find('\t'), std::string::npos);
  }
  const Result<std::string> unknown = make_description("yolov9");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "there is no network 'yolov9' to make");
}

struct KnownSize {
  const char* name;
  size_t layers_with_weights;
  uint64_t parameters;
};

/// Weights and biases, batch normalization folded.
uint64_t parameters(const Network& network) { return network.folded_bytes() / sizeof(float); }

// Published numbers of parameters, of networks whose layers are those of their papers: AlexNet
// without groups 62.4 million, VGG-16 138,357,544, VGG-19 143,667,240, SqueezeNet 1.1 1,235,496.
TEST(MadeNetworks, HaveThePublishedNumbersOfParameters) {
  for (const KnownSize& known : {KnownSize{"alexnet", 8, 62'378'344},
                                 {"vgg16", 16, 138'357'544},
                                 {"vgg19", 19, 143'667'240},
                                 {"squeezenet", 26, 1'235'496}}) {
    const Network network = described(known.name);
    EXPECT_EQ(parameters(network), known.parameters) << known.name;
    EXPECT_EQ(std::count_if(network.layers.begin(), network.layers.end(),
                            [](const Layer& it) { return it.weights() > 0; }),
              static_cast<ptrdiff_t>(known.layers_with_weights))
        << known.name;
  }
  // Nine modules of six convolutions, three before them, and the classes behind them.
  const Network googlenet = described("googlenet");
  EXPECT_EQ(googlenet.layers.at(googlenet.layers.size() - 4).output, (Shape{1024, 1, 1}));
  EXPECT_EQ(std::count_if(googlenet.layers.begin(), googlenet.layers.end(),
                          [](const Layer& it) { return it.weights() > 0; }),
            58);
}

// PyTorch's published numbers of parameters, with a scale and a shift for each normalized channel,
// and the sizes of its files, which also have a mean and a variance. SwapNet names 170 and 207 MB.
TEST(MadeNetworks, ProjectedResNetsArePyTorchs) {
  const auto check = [](const Network& network, uint64_t parameters_published,
                        const char* weights_mib) {
    uint64_t published = 0;
    for (const Layer& layer : network.layers) {
      published +=
          layer.weights() + (layer.is_batch_normalized() ? 2 : 1) * layer.channels_with_bias();
    }
    EXPECT_EQ(published, parameters_published);
    EXPECT_EQ(in_mib(network.weights_file_bytes()), weights_mib);
  };
  const Network resnet = described("resnet101-projected");
  check(resnet, 44'549'160, "170.3");
  EXPECT_EQ(resnet.layers.back().output, (Shape{1000, 1, 1}));
  const Network fcn = described("fcn-resnet101");
  check(fcn, 54'314'346, "207.6");
  EXPECT_EQ(fcn.layers.back().output, (Shape{21, 320, 320}));
  uint64_t widest_bytes = 0;
  for (const Layer& layer : fcn.layers) {
    if (layer.weights() > 0) widest_bytes = std::max(widest_bytes, layer.output.size_bytes());
    if (std::holds_alternative<Shortcut>(layer.operation)) {
      EXPECT_EQ(layer.output, fcn.shape_of(layer.inputs[1])) << "nothing is left out of a sum";
    }
  }
  EXPECT_EQ(in_mib(widest_bytes), "12.5");
}

// --- Debian's darknet, where it is installed ----------------------------------------------------

TEST(DebianNetworks, AreTheMadeOnes) {
  const std::string directory = "/usr/share/darknet/cfg/";
  WP_SKIP_FOR(lack_unless(std::filesystem::exists(directory), "no " + directory));
  for (const std::string name : {"yolov3", "yolov3-tiny", "resnet18", "resnet34", "resnet50",
                                 "resnet101", "resnet152", "densenet201", "alexnet", "darknet19"}) {
    const Result<Network> theirs = read_network(directory + name + ".cfg");
    ASSERT_TRUE(theirs) << theirs.error().message;
    const Network ours = described(name);
    // Of two, the paper's description has a [cost] at the end, which Debian's has not.
    const size_t layers = theirs->layers.size();
    ASSERT_TRUE(ours.layers.size() == layers ||
                std::holds_alternative<Cost>(ours.layers.back().operation));
    for (size_t i = 0; i < layers; ++i) {
      EXPECT_EQ(ours.layers[i].inputs, theirs->layers[i].inputs) << name << ", layer " << i;
      EXPECT_EQ(ours.layers[i].raw_bytes(), theirs->layers[i].raw_bytes()) << name << i;
      EXPECT_EQ(ours.layers[i].operation.index(), theirs->layers[i].operation.index()) << name << i;
    }
  }
}

// --- weights ------------------------------------------------------------------------------------

float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::leaky:
      return x > 0 ? x : x / 10;
    case Activation::relu:
      return std::max(x, 0.0F);
    default:
      return x;
  }
}

double root_of_mean_square(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(MadeWeights, KeepActivationsInBoundsInDeepNetworks) {
  std::string text =
      "[net]\nheight=1\nwidth=1\nchannels=256\n"
      "[convolutional]\nbatch_normalize=1\nfilters=256\nactivation=leaky\n";
  for (int i = 0; i < 50; ++i)
    text +=
        "[convolutional]\nbatch_normalize=1\nfilters=64\nactivation=relu\n"
        "[convolutional]\nbatch_normalize=1\nfilters=256\nactivation=leaky\n"
        "[shortcut]\nfrom=-3\nactivation=linear\n";
  text += "[convolutional]\nfilters=100\nactivation=linear\n";
  const Network network = parsed(text);
  const std::vector<WeightScale> scales = weight_scales(network);

  std::mt19937 random(5);
  std::uniform_real_distribution<float> pixel(0, 1);
  std::vector<float> image(256);
  for (float& value : image) value = pixel(random);
  std::vector<std::vector<float>> outputs;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const std::vector<float>& input = i == 0 ? image : outputs[i - 1];
    std::vector<float> output(layer.output.channels);
    if (const auto* it = std::get_if<Convolutional>(&layer.operation)) {
      std::vector<float> raw = make_raw_layer(layer, scales[i], i);
      const Result<LayerWeights> weights = fold(layer, raw, "made");
      ASSERT_TRUE(weights) << weights.error().message;
      for (size_t o = 0; o < output.size(); ++o) {
        float sum = weights->biases[o];
        for (size_t c = 0; c < input.size(); ++c)
          sum += weights->weights[o * input.size() + c] * input[c];
        output[o] = activated(it->activation, sum);
      }
    } else {
      for (size_t c = 0; c < output.size(); ++c) output[c] = input[c] + outputs[layer.inputs[1]][c];
    }
    // A sum of 50 shortcuts may be large; none may be out of all proportion.
    EXPECT_GT(root_of_mean_square(output), 0.2) << i;
    EXPECT_LT(root_of_mean_square(output), 30) << i;
    outputs.push_back(std::move(output));
  }
  EXPECT_LT(root_of_mean_square(outputs.back()), 3) << "classes are told apart, not decided";
}

TEST(MadeWeights, AreNormalizedByWhatComesOutOfThem) {
  for (const std::string& name : described_networks()) {
    const Network network = described(name);
    const std::vector<WeightScale> scales = weight_scales(network);
    ASSERT_EQ(scales.size(), network.layers.size());
    for (size_t i = 0; i < scales.size(); ++i) {
      const Layer& layer = network.layers[i];
      if (layer.weights() == 0) continue;
      EXPECT_GT(scales[i].weight_deviation, 0) << name << i;
      EXPECT_LT(scales[i].weight_deviation, 1) << name << i;
      EXPECT_GT(scales[i].variance, 0.05) << name << i;
      EXPECT_LT(scales[i].variance, 100) << name << i;
      const bool is_before_yolo =
          i + 1 < scales.size() && std::holds_alternative<Yolo>(network.layers[i + 1].operation);
      EXPECT_EQ(scales[i].box_channels, is_before_yolo ? 85u : 0u) << name << i;
    }
  }
}

TEST(MadeWeights, HaveTheDeviationsThatWereAskedFor) {
  const Network network = parsed(
      "[net]\nheight=4\nwidth=4\nchannels=64\n"
      "[convolutional]\nfilters=512\nsize=3\nbatch_normalize=1\nactivation=linear\n");
  const Layer& layer = network.layers[0];
  const WeightScale scale{0.05, 4, 0, 0};
  const std::vector<float> raw = make_raw_layer(layer, scale, 3);
  const RawParts parts = raw_parts(layer);
  const auto part = [&](uint64_t start, uint64_t count) {
    return std::vector<float>(raw.begin() + static_cast<ptrdiff_t>(start),
                              raw.begin() + static_cast<ptrdiff_t>(start + count));
  };
  const auto mean = [](const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const std::vector<float> weights = part(parts.weights, layer.weights());
  EXPECT_NEAR(mean(weights), 0, 0.001);
  EXPECT_NEAR(root_of_mean_square(weights), 0.05, 0.001);
  EXPECT_NEAR(mean(part(parts.scales, 512)), 1, 0.02);
  EXPECT_NEAR(mean(part(parts.variances, 512)), 4, 0.2);
  EXPECT_NEAR(mean(part(parts.means, 512)), 0, 0.05);
  for (const float variance : part(parts.variances, 512)) EXPECT_GT(variance, 3);
}

TEST(MadeWeights, MakeFewBoxesSure) {
  const Network network = parsed(
      "[net]\nheight=4\nwidth=4\nchannels=8\n[convolutional]\nfilters=21\nactivation=linear\n"
      "[yolo]\nclasses=2\nnum=3\nanchors=1,2,3,4,5,6\n");
  const std::vector<float> raw = make_raw_layer(network.layers[0], weight_scales(network)[0], 1);
  for (uint32_t channel = 0; channel < 21; ++channel) {
    if (channel % 7 == 4)
      EXPECT_LT(raw[channel], -2.5F) << channel;
    else
      EXPECT_LT(std::abs(raw[channel]), 0.2F) << channel;
  }
}

class MadeFiles : public testing::Test {
 protected:
  MakeNetworkOptions options(uint64_t seed = 1) {
    return {"squeezenet", directory_.path("networks"), seed, false, {}};
  }
  model::TemporaryDirectory directory_;
};

TEST_F(MadeFiles, AreWhatTheNetworkNeeds) {
  const Result<MadeNetwork> made = make_network(options());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->weights_path, directory_.path("networks/squeezenet.weights"));
  EXPECT_EQ(std::filesystem::file_size(made->weights_path), made->network.weights_file_bytes());
  const Result<Network> network = read_network(made->description_path);
  ASSERT_TRUE(network) << network.error().message;
  Result<WeightSource> source = WeightSource::open(made->weights_path, *network);
  ASSERT_TRUE(source) << source.error().message;
  for (uint32_t i = 0; i < network->layers.size(); ++i)
    EXPECT_TRUE(read_layer(*source, i).weights) << i;
}

TEST_F(MadeFiles, AreTheSameForTheSameSeed) {
  const auto bytes = [&](uint64_t seed) {
    MakeNetworkOptions wanted = options(seed);
    wanted.overwrite = true;
    EXPECT_TRUE(make_network(wanted));
    return model::read_all(directory_.path("networks/squeezenet.weights"));
  };
  const std::string first = bytes(1);
  EXPECT_EQ(checksum(std::as_bytes(std::span(first))), 0x27db69e05148e263) << "on every machine";
  EXPECT_NE(bytes(2), first);
  EXPECT_EQ(bytes(1), first);
}

TEST_F(MadeFiles, ReplaceOnlyWhenToldTo) {
  ASSERT_TRUE(make_network(options()));
  const Result<MadeNetwork> again = make_network(options());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message,
            directory_.path("networks/squeezenet.cfg") + ": is there already");
}

}  // namespace
}  // namespace weightpager::network
