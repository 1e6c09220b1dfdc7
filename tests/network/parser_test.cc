// Darknet descriptions: what is read from right ones, and what is said about wrong ones.
#include "runtime/network/parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/base/lacks.h"
#include "tests/network/network_files.h"

namespace weightpager::network {
namespace {

const std::string net = "[net]\nheight=32\nwidth=48\nchannels=3\n";

template <typename T>
T operation(const Network& network, size_t layer) {
  if (layer >= network.layers.size()) return {};
  const T* const found = std::get_if<T>(&network.layers[layer].operation);
  if (found != nullptr) return *found;
  ADD_FAILURE() << "layer " << layer << " is another kind";
  return {};
}

void expect_refused(const std::string& text, const std::string& message,
                    const std::string& hint = "") {
  const Result<Network> network = parse_network(text, "net.cfg");
  ASSERT_FALSE(network) << text;
  EXPECT_EQ(network.error().message, "net.cfg" + message);
  if (!hint.empty()) {
    EXPECT_EQ(network.error().hint, hint);
  }
}

TEST(Parser, ReadsLinesOfAnySystemBehindAByteOrderMark) {
  std::string text = "\xef\xbb\xbf" + net + "# a comment\n[convolutional]\nfilters=4\n";
  for (const std::string_view end : {"\n", "\r\n", "\r"}) {
    std::string other;
    for (const char letter : text) letter == '\n' ? other += end : other += letter;
    EXPECT_EQ(parsed(other).layers.size(), 1u);
  }
}

TEST(Parser, ReadsSpacesCommentsAndBothNamesOfSections) {
  const Network network = parsed(
      "# a comment\r\n"
      "  [ network ]\r\n"
      "height = 32 # rows\n width\t=48\nchannels=3\n"
      "learning_rate=0.001\nsteps=400,450\n\n"
      "[conv]\nfilters = 8\n;size=7\nsize=3\nstride=2\npad=1\nbatch_normalize=1\n"
      "activation = leaky ; not relu\n"
      "[max]\nsize=2\nstride=2\n[avg]\n[conn]\noutput=10\nactivation=linear\n[soft]\n");
  ASSERT_EQ(network.layers.size(), 5u);
  EXPECT_EQ(network.input, (Shape{3, 32, 48}));
  const auto conv = operation<Convolutional>(network, 0);
  EXPECT_EQ(conv.filters, 8u);
  EXPECT_EQ(conv.size, 3u);
  EXPECT_EQ(conv.padding, 1u);
  EXPECT_EQ(conv.activation, Activation::leaky);
  EXPECT_TRUE(conv.is_batch_normalized);
  EXPECT_EQ(network.layers[0].output, (Shape{8, 16, 24}));
  EXPECT_EQ(network.layers[0].line, 9u);
  EXPECT_EQ(network.layers[0].inputs, std::vector<uint32_t>{network_input});
  EXPECT_EQ(network.layers[1].output, (Shape{8, 8, 12}));
  EXPECT_EQ(network.layers[2].output, (Shape{8, 1, 1}));
  EXPECT_EQ(network.layers[3].output, (Shape{10, 1, 1}));
  EXPECT_EQ(network.layers[4].inputs, std::vector<uint32_t>{3});
}

TEST(Parser, AssumesWhatDarknetAssumes) {
  const Network network = parsed(net +
                                 "[convolutional]\n[connected]\n[route]\nlayers=0\n"
                                 "[maxpool]\nstride=2\n[upsample]\n[shortcut]\nfrom=0\n[softmax]\n"
                                 "[maxpool]\n");
  const auto conv = operation<Convolutional>(network, 0);
  EXPECT_EQ(conv.filters, 1u);
  EXPECT_EQ(conv.size, 1u);
  EXPECT_EQ(conv.stride, 1u);
  EXPECT_EQ(conv.padding, 0u);
  EXPECT_EQ(conv.groups, 1u);
  EXPECT_FALSE(conv.is_batch_normalized);
  EXPECT_EQ(conv.activation, Activation::logistic);
  EXPECT_EQ(operation<Connected>(network, 1).outputs, 1u);
  EXPECT_EQ(operation<Connected>(network, 1).activation, Activation::logistic);
  EXPECT_EQ(operation<MaxPool>(network, 3).size, 2u);
  EXPECT_EQ(operation<MaxPool>(network, 3).padding, 1u);
  EXPECT_EQ(operation<Upsample>(network, 4).stride, 2u);
  EXPECT_EQ(operation<Upsample>(network, 4).scale, 1.0F);
  EXPECT_EQ(operation<Shortcut>(network, 5).activation, Activation::linear);
  EXPECT_EQ(operation<Softmax>(network, 6).temperature, 1.0F);
  EXPECT_EQ(operation<MaxPool>(network, 7).size, 1u);
  EXPECT_EQ(operation<MaxPool>(network, 7).padding, 0u);
}

TEST(Parser, PadIsHalfTheSizeAndOverridesPadding) {
  const Network network = parsed(net +
                                 "[convolutional]\nsize=5\npad=1\npadding=7\n"
                                 "[convolutional]\nsize=5\npadding=1\n[convolutional]\nsize=5\n");
  EXPECT_EQ(operation<Convolutional>(network, 0).padding, 2u);
  EXPECT_EQ(network.layers[0].output, (Shape{1, 32, 48}));
  EXPECT_EQ(operation<Convolutional>(network, 1).padding, 1u);
  EXPECT_EQ(network.layers[1].output, (Shape{1, 30, 46}));
  EXPECT_EQ(network.layers[2].output, (Shape{1, 26, 42}));
}

TEST(Parser, PoolsAsDarknetRoundsThem) {
  const auto pooled = [](const std::string& options) {
    return parsed("[net]\nheight=13\nwidth=14\nchannels=2\n[maxpool]\n" + options)
        .layers.at(0)
        .output;
  };
  EXPECT_EQ(pooled("size=2\nstride=2"), (Shape{2, 7, 7}));
  EXPECT_EQ(pooled("size=2\nstride=1"), (Shape{2, 13, 14}));
  EXPECT_EQ(pooled("size=3\nstride=2\npadding=0"), (Shape{2, 6, 6}));
  EXPECT_EQ(pooled("size=5\nstride=1"), (Shape{2, 13, 14}));
}

TEST(Parser, RoutesConcatenateAndSplitChannels) {
  const Network network = parsed(net +
                                 "[convolutional]\nfilters=8\n[convolutional]\nfilters=4\n"
                                 "[route]\nlayers = -1, 0\n[route]\nlayers=2\ngroups=2\n"
                                 "group_id=1\n");
  EXPECT_EQ(network.layers[2].inputs, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(network.layers[2].input, (Shape{4, 32, 48}));
  EXPECT_EQ(network.layers[2].output, (Shape{12, 32, 48}));
  EXPECT_EQ(operation<Route>(network, 3).groups, 2u);
  EXPECT_EQ(operation<Route>(network, 3).group, 1u);
  EXPECT_EQ(network.layers[3].output, (Shape{6, 32, 48}));
}

TEST(Parser, ShortcutsAddAnEarlierLayerToTheOneBefore) {
  const Network network = parsed(net +
                                 "[convolutional]\nfilters=8\n"
                                 "[convolutional]\nfilters=4\nsize=3\npad=1\nstride=2\n"
                                 "[shortcut]\nfrom=-2\nactivation=leaky\n");
  EXPECT_EQ(network.layers[2].inputs, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(network.layers[2].output, (Shape{4, 16, 24}));
  EXPECT_EQ(operation<Shortcut>(network, 2).activation, Activation::leaky);
}

TEST(Parser, YoloTakesItsAnchorsFromTheMask) {
  const Network network =
      parsed(net +
             "[convolutional]\nfilters=14\n"
             "[yolo]\nclasses=2\nnum=3\nanchors=1,2, 3,4, 5.5,6\nmask=0, 2\n"
             "scale_x_y = 1.05\nnew_coords=1\nignore_thresh=.7\nnms_kind=diounms\n"
             "beta_nms=0.5\n"
             "[convolutional]\nfilters=21\n"
             "[yolo]\nclasses=2\nnum=3\nanchors=1,2,3,4,5,6\n");
  const Yolo yolo = operation<Yolo>(network, 1);
  EXPECT_EQ(yolo.classes, 2u);
  EXPECT_EQ(yolo.anchors, (std::vector<float>{1, 2, 3, 4, 5.5, 6}));
  EXPECT_EQ(yolo.mask, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(yolo.scale_x_y, 1.05F);
  EXPECT_TRUE(yolo.has_new_coordinates);
  EXPECT_TRUE(yolo.counts_distance);
  EXPECT_EQ(yolo.distance_exponent, 0.5F);
  EXPECT_FALSE(operation<Yolo>(network, 3).counts_distance);
  EXPECT_EQ(operation<Yolo>(network, 3).mask, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Parser, CountsBytesAsTheWeightsFileHasThem) {
  const Network network = parsed(net +
                                 "[convolutional]\nfilters=8\nsize=3\nbatch_normalize=1\n"
                                 "[convolutional]\nfilters=4\ngroups=2\n"
                                 "[connected]\noutput=5\nactivation=linear\n");
  EXPECT_EQ(network.layers[0].raw_bytes(), 4u * (4 * 8 + 8 * 3 * 9));
  EXPECT_EQ(network.layers[0].folded_bytes(), 4u * (8 + 8 * 3 * 9));
  EXPECT_EQ(network.layers[1].raw_bytes(), 4u * (4 + 4 * 4));
  EXPECT_EQ(network.layers[2].raw_bytes(), 4u * (5 + 5 * 4 * 30 * 46));
  EXPECT_EQ(network.weights_file_bytes(), 20 + 4u * (4 * 8 + 8 * 27 + 20 + 5 + 5 * 5520));
}

TEST(Parser, UnknownKeysAndSectionsAreRefusedWithWhatIsKnown) {
  expect_refused(net + "[avgpool]\nsize=3\n", ", line 6: expected a key of [avgpool], found 'size'",
                 "keys that count: dontload, dontloadscales, dontsave, numload; keys of training, "
                 "which are ignored: learning_rate, onlyforward, stopbackward, dont_update, "
                 "burnin_update, train_only_bn, clip, truth, smooth");
  expect_refused(net + "[reorg]\nstride=2\n",
                 ", line 5: expected a kind of layer that is computed here, found [reorg]",
                 "known are convolutional, conv, connected, conn, maxpool, max, avgpool, avg, "
                 "dropout, route, shortcut, upsample, yolo, softmax, soft, cost, crop");
  expect_refused(net + "batch_size=3\n[avgpool]\n",
                 ", line 5: expected a key of [net], found 'batch_size'");
}

TEST(Parser, ACropIsTheMiddleAdjustedOrNot) {
  const Network network = parsed(net +
                                 "[crop]\ncrop_height=20\ncrop_width=30\nflip=1\nangle=7\n"
                                 "[crop]\ncrop_height=10\ncrop_width=30\nnoadjust=1\n");
  EXPECT_EQ(network.layers[0].output, (Shape{3, 20, 30}));
  EXPECT_EQ(operation<Crop>(network, 0).scale, 2.0F);
  EXPECT_EQ(operation<Crop>(network, 0).shift, -1.0F);
  EXPECT_EQ(network.layers[1].output, (Shape{3, 10, 30}));
  EXPECT_EQ(operation<Crop>(network, 1).scale, 1.0F);
  EXPECT_EQ(operation<Crop>(network, 1).shift, 0.0F);
  expect_refused(
      net + "[crop]\ncrop_height=2000\n",
      ", line 6: expected a part of 3 channels of 48 x 32, found 3 channels of 1 x 2000");
}

TEST(Parser, WhatWouldBeComputedDifferentlyIsRefused) {
  const auto refused = [](const std::string& section, const std::string& option,
                          const std::string& expected) {
    const size_t equals = option.find('=');
    expect_refused(net + "[convolutional]\nfilters=4\n[" + section + "]\nfrom=0\n" + option,
                   fmt::format(", line 9: expected {} for {} of [{}], found '{}'", expected,
                               option.substr(0, equals), section, option.substr(equals + 1)));
  };
  const std::string only = ", since nothing else is computed here,";
  refused("shortcut", "alpha=0.5", "1" + only);
  refused("shortcut", "weights_type=per_feature", "one of none");
  refused("shortcut", "activation=tanh", "one of linear, leaky, relu, logistic, mish, swish");
  expect_refused(net + "[convolutional]\nsize=3\ndilation=2\n",
                 ", line 7: expected 1, since nothing else is computed here, for dilation of "
                 "[convolutional], found '2'");
  expect_refused(net + "[convolutional]\nbatch_normalize=2\n",
                 ", line 6: expected a number from 0 to 1 for batch_normalize of "
                 "[convolutional], found '2'");
  expect_refused(net + "[convolutional]\nstride=2\nstride_x=1\n",
                 ", line 7: expected 2, since nothing else is computed here, for stride_x of "
                 "[convolutional], found '1'");
  expect_refused(net + "[convolutional]\ndontload=1\n",
                 ", line 6: expected 0, since nothing else is computed here, for dontload of "
                 "[convolutional], found '1'");
}

TEST(Parser, KeysGivenTwiceMustAgree) {
  EXPECT_EQ(parsed(net + "[convolutional]\nfilters=4\nfilters=4\n").layers[0].output.channels, 4u);
  expect_refused(
      net + "[convolutional]\nfilters=4\nfilters=5\n",
      ", line 7: expected the value of line 6 for filters of [convolutional], found '5'");
}

TEST(Parser, NumbersAreCheckedWhole) {
  for (const std::string value : {"0", "-1", "x", "3x", "1.5", "99999999999", "1048577", "0x3"})
    expect_refused(net + "[convolutional]\nfilters=" + value,
                   ", line 6: expected a number from 1 to 1048576 for filters of [convolutional], "
                   "found '" +
                       value + "'");
  for (const std::string value : {"nan", "inf", "1e999", "one"})
    expect_refused(net + "[upsample]\nscale=" + value,
                   ", line 6: expected a number for scale of [upsample], found '" + value + "'");
}

TEST(Parser, LinesThatAreNoOptionsAreRefused) {
  expect_refused("[net]\nheight\n", ", line 2: expected key=value, found 'height'");
  expect_refused("[net]\nheight=\n", ", line 2: expected key=value, found 'height='");
  expect_refused("[net]\n=3\n", ", line 2: expected key=value, found '=3'");
  expect_refused("height=3\n", ", line 1: expected [net] before the first key, found 'height=3'");
  expect_refused("[net\n", ", line 1: expected ']' behind the section's name, found '[net'");
  expect_refused("[", ", line 1: expected ']' behind the section's name, found '['");
}

TEST(Parser, AFileThatIsNoNetworkIsRefused) {
  expect_refused("", ", line 1: expected [net] as the first section");
  expect_refused("[convolutional]\n", ", line 1: expected [net] as the first section");
  expect_refused(net, ": expected from 1 to 65536 layers, found 0");
  expect_refused("[net]\nheight=3\n[avgpool]\n",
                 ", line 1: expected height=, width= and channels= in [net]");
  expect_refused("[net]\ninputs=256\nheight=2\nwidth=2\nchannels=1\n[avgpool]\n",
                 ", line 2: expected 4, since nothing else is computed here, for inputs of [net], "
                 "found '256'");
}

TEST(Parser, LayersThatAreNotThereAreRefused) {
  const std::string conv = net + "[convolutional]\n";
  for (const std::string number : {"1", "2", "-2", "-2147483648"}) {
    const std::string message =
        ", line 7: expected numbers from -1 to 0, with commas for {} of [{}], found '" + number +
        "'";
    expect_refused(conv + "[route]\nlayers=" + number,
                   fmt::format(fmt::runtime(message), "layers", "route"));
    expect_refused(conv + "[shortcut]\nfrom=" + number,
                   fmt::format(fmt::runtime(message), "from", "shortcut"));
  }
  expect_refused(conv + "[route]\n", ", line 6: expected layers= with earlier layers");
  expect_refused(net + "[route]\nlayers=-1\n", ", line 5: expected a layer before this one");
  expect_refused(conv + "[convolutional]\n[shortcut]\nfrom=0,1\n",
                 ", line 8: expected one layer to add, found 2");
}

TEST(Parser, ShapesThatDoNotFitAreRefused) {
  const std::string conv = net + "[convolutional]\nfilters=4\n";
  const std::string two = conv + "[convolutional]\nfilters=6\nsize=2\nstride=2\n";
  expect_refused(two + "[route]\nlayers=0,1\n",
                 ", line 12: expected layers of 48 x 32, as layer 0 is, found layer 1 of 24 x 16");
  expect_refused(conv + "[route]\nlayers=0\ngroups=3\n",
                 ", line 9: expected groups that divide 4 channels of layer 0, found 3");
  expect_refused(conv + "[convolutional]\nfilters=4\ngroups=3\n",
                 ", line 9: expected groups that divide 4 channels and 4 filters, found 3");
  expect_refused(conv + "[avgpool]\n[convolutional]\nsize=3\n",
                 ", line 8: expected an input that is as large as the layer's windows, found 4 "
                 "channels of 1 x 1");
  expect_refused(conv + "[avgpool]\n[shortcut]\nfrom=0\n",
                 ", line 9: expected shapes of the same proportions, found layer 0 of 4 channels "
                 "of 48 x 32 to be added to 4 channels of 1 x 1");
  expect_refused(conv + "[maxpool]\nsize=2\npadding=3\n",
                 ", line 9: expected padding of less than twice the size of 2, found 3");
  expect_refused(conv + "[softmax]\ngroups=5\n",
                 ", line 8: expected groups that divide 6144 inputs, found 5");
  expect_refused(conv + "[softmax]\ntemperature=0\n", ", line 8: expected a temperature above 0");
}

TEST(Parser, YoloThatDoesNotFitIsRefused) {
  const std::string conv = net + "[convolutional]\nfilters=18\n[yolo]\n";
  expect_refused(conv + "classes=2\nnum=3\nanchors=1,2,3,4,5,6\n",
                 ", line 8: expected 21 channels, 5 and 2 classes for each of 3 anchors, found 18",
                 "filters= of the layer before has to agree with classes= and mask=");
  expect_refused(conv + "classes=1\nnum=3\nanchors=1,2,3,4,5\n",
                 ", line 10: expected the widths and heights of num=3 anchors, found 5 numbers");
  expect_refused(conv + "classes=1\nnum=3\nanchors=1,2,3,4,5,6\nmask=1,3,2\n",
                 ", line 11: expected numbers from 0 to 2, with commas for mask of [yolo], found "
                 "'1,3,2'");
  expect_refused(
      conv + "classes=1\nnum=3\nanchors=1,2,3,4,5,6\nnms_kind=cornersnms\n",
      ", line 11: expected one of default, greedynms, diounms for nms_kind of [yolo], found "
      "'cornersnms'");
}

TEST(Parser, SizesThatWouldOverflowAreRefused) {
  expect_refused("[net]\nheight=1048576\nwidth=1048576\nchannels=1048576\n[avgpool]\n",
                 ", line 1: expected an input of at most 68719476736 numbers, found 1048576 "
                 "channels of 1048576 x 1048576");
  const std::string large = "[net]\nheight=32768\nwidth=32768\nchannels=1\n";
  expect_refused(large + "[convolutional]\nfilters=1048576\n",
                 ", line 5: expected an output of at most 1048576 channels and 68719476736 "
                 "numbers, found 1048576 channels of 32768 x 32768");
  expect_refused(large + "[upsample]\nstride=1024\n[upsample]\nstride=1024\n",
                 ", line 5: expected an output of at most 1048576 channels and 68719476736 "
                 "numbers, found 1 channels of 33554432 x 33554432");
  expect_refused(large + "[connected]\noutput=1048576\n",
                 ", line 5: expected a layer of at most 1099511627776 weights, found "
                 "1125899906842624");
}

TEST(Parser, ManyLayersAreRefused) {
  std::string text = net;
  for (int i = 0; i < 65'537; ++i) text += "[avg]\n";
  expect_refused(text, ": expected from 1 to 65536 layers, found 65537");
}

TEST(Parser, TextThatIsCutOffAnywhereDoesNotReadBeyondIt) {
  const std::string text = net +
                           "[convolutional]\nfilters=21\nactivation=leaky\n[shortcut]\nfrom=-1\n"
                           "[route]\nlayers=-1\n[upsample]\n[maxpool]\nsize=2\nstride=2\n"
                           "[yolo]\nclasses=2\nnum=3\nanchors=1,2,3,4,5,6\n";
  ASSERT_TRUE(parse_network(text, "net.cfg"));
  for (size_t length = 0; length < text.size(); ++length) {
    const std::vector<char> exact(text.begin(), text.begin() + static_cast<ptrdiff_t>(length));
    const Result<Network> network = parse_network({exact.data(), exact.size()}, "net.cfg");
    if (network) {
      EXPECT_LE(network->layers.size(), 6u);
    } else {
      EXPECT_TRUE(network.error().message.starts_with("net.cfg")) << network.error().message;
    }
  }
}

TEST(Parser, ReadsFiles) {
  const model::TemporaryDirectory directory;
  const std::string path = directory.write("a.cfg", net + "[avgpool]\n");
  EXPECT_TRUE(read_network(path));
  const Result<Network> missing = read_network(directory.path("b.cfg"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().error_number, ENOENT);
  std::filesystem::resize_file(path, (uint64_t{16} << 20) + 1);
  const Result<Network> large = read_network(path);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message,
            path + ": has more than 16.0 MiB, which a network's description does not take");
}

// Debian's own networks, where the package darknet is installed.
const std::string debian_networks = "/usr/share/darknet/cfg";

struct KnownNetwork {
  const char* file;
  size_t layers;
  uint64_t weights_file_bytes;
};

TEST(DebianNetworks, HaveTheWeightsThatDarknetHas) {
  WP_SKIP_FOR(lack_unless(std::filesystem::exists(debian_networks), "no " + debian_networks));
  // The sizes of yolov3*.weights are those of the files that Darknet's author offers.
  for (const KnownNetwork& known : {KnownNetwork{"yolov3.cfg", 107, 248'007'048},
                                    {"yolov3-tiny.cfg", 24, 35'434'956},
                                    {"yolov3-spp.cfg", 114, 252'209'544},
                                    {"resnet152.cfg", 205, 230'239'924},
                                    {"densenet201.cfg", 305, 68'825'780}}) {
    const Result<Network> network = read_network(debian_networks + "/" + known.file);
    ASSERT_TRUE(network) << network.error().message;
    EXPECT_EQ(network->layers.size(), known.layers) << known.file;
    EXPECT_EQ(network->weights_file_bytes(), known.weights_file_bytes) << known.file;
  }
}

TEST(DebianNetworks, AreRefusedOnlyForWhatIsNotComputed) {
  WP_SKIP_FOR(lack_unless(std::filesystem::exists(debian_networks), "no " + debian_networks));
  const std::map<std::string, std::string> reasons = {{"darknet9000.cfg", "'tree'"},
                                                      {"go.cfg", "[reorg]"},
                                                      {"go.test.cfg", "[reorg]"},
                                                      {"gru.cfg", "[net]"},
                                                      {"rnn.cfg", "[net]"},
                                                      {"rnn.train.cfg", "[net]"},
                                                      {"strided.cfg", "'ramp'"},
                                                      {"t1.test.cfg", "[detection]"},
                                                      {"yolo9000.cfg", "[region]"},
                                                      {"yolov1-tiny.cfg", "[detection]"},
                                                      {"yolov1.cfg", "[local]"},
                                                      {"yolov2-tiny-voc.cfg", "[region]"},
                                                      {"yolov2-tiny.cfg", "[region]"},
                                                      {"yolov2-voc.cfg", "[reorg]"},
                                                      {"yolov2.cfg", "[reorg]"}};
  for (const auto& entry : std::filesystem::directory_iterator(debian_networks)) {
    if (entry.path().extension() != ".cfg") continue;
    const auto reason = reasons.find(entry.path().filename());
    const Result<Network> network = read_network(entry.path());
    EXPECT_EQ(network.has_value(), reason == reasons.end())
        << entry.path() << ": " << (network ? "" : network.error().message);
    if (!network && reason != reasons.end()) {
      EXPECT_TRUE(network.error().message.ends_with(reason->second)) << network.error().message;
    }
  }
}

}  // namespace
}  // namespace weightpager::network
