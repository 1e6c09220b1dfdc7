// Where layers lie, and which models cannot be streamed layer by layer.
#include "runtime/pipeline/layer_ranges.h"

#include <gtest/gtest.h>

namespace weightpager::pipeline {
namespace {

using model::Format;
using model::Model;
using model::Tensor;

Tensor tensor(const char* name, uint64_t offset_bytes, uint64_t size_bytes) {
  return {.name = name, .offset_bytes = offset_bytes, .size_bytes = size_bytes};
}

Model two_layers() {
  Model model{.format = Format::gguf, .files = {{"model.gguf", 1 << 20}}};
  model.tensors = {tensor("a", 1000, 24), tensor("b", 1056, 100), tensor("c", 1160, 8),
                   tensor("empty", 9000, 0)};
  model.layers = {{.name = "block 0", .tensors = {1, 0, 3}}, {.name = "block 1", .tensors = {2}}};
  return model;
}

TEST(LayerRanges, ALayerIsOneRunWhateverTheOrderOfItsTensors) {
  const auto ranges = layer_ranges(two_layers());
  ASSERT_TRUE(ranges) << ranges.error().message;
  ASSERT_EQ(ranges->size(), 2u);
  EXPECT_EQ((*ranges)[0].name, "block 0");
  EXPECT_EQ((*ranges)[0].offset_bytes, 1000u);
  EXPECT_EQ((*ranges)[0].length_bytes, 156u);
  EXPECT_EQ((*ranges)[1].offset_bytes, 1160u);
  EXPECT_EQ((*ranges)[1].length_bytes, 8u);
}

TEST(LayerRanges, ALayerWithoutBytesHasNone) {
  Model model = two_layers();
  model.layers[1].tensors = {3};
  const auto ranges = layer_ranges(model);
  ASSERT_TRUE(ranges) << ranges.error().message;
  EXPECT_EQ((*ranges)[1].length_bytes, 0u);
}

TEST(LayerRanges, ALayerInPiecesIsRefusedByName) {
  Model model = two_layers();
  model.tensors.push_back(tensor("d", 1156 + 4097, 8));
  model.layers[0].tensors.push_back(4);
  const auto refused = layer_ranges(model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "model.gguf: the tensors of layer 'block 0' do not lie together: b ends at byte 1156, "
            "d begins at byte 5253");
  EXPECT_NE(refused.error().hint.find("byte ranges"), std::string::npos);
  model.tensors[4].offset_bytes = 1156 + 4096;
  EXPECT_TRUE(layer_ranges(model));
}

TEST(LayerRanges, APlainFileHasNoLayers) {
  Model model = two_layers();
  model.format = Format::plain;
  EXPECT_FALSE(layer_ranges(model));
}

}  // namespace
}  // namespace weightpager::pipeline
