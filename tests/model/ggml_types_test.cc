// The table of element types, against bits per weight: the figures that the types' authors publish,
// which is another way to say what the table says. Ids, blocks and bytes were also compared, once,
// with those of the Python package gguf 0.19.0: equal but for Q8_1, which has 40 bytes there (an
// older layout; ggml's struct has 36, and no file has that type), and Q2_0, which is not there.
#include "pager/model/ggml_types.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace weightpager::model {
namespace {

TEST(GgmlTypes, BitsPerWeight) {
  const std::map<std::string_view, double> bits_per_weight{
      {"F32", 32},         {"F16", 16},        {"BF16", 16},      {"F64", 64},
      {"I8", 8},           {"I16", 16},        {"I32", 32},       {"I64", 64},
      {"Q4_0", 4.5},       {"Q4_1", 5},        {"Q5_0", 5.5},     {"Q5_1", 6},
      {"Q8_0", 8.5},       {"Q8_1", 9},        {"Q2_K", 2.625},   {"Q3_K", 3.4375},
      {"Q4_K", 4.5},       {"Q5_K", 5.5},      {"Q6_K", 6.5625},  {"Q8_K", 9.125},
      {"IQ2_XXS", 2.0625}, {"IQ2_XS", 2.3125}, {"IQ2_S", 2.5625}, {"IQ3_XXS", 3.0625},
      {"IQ3_S", 3.4375},   {"IQ1_S", 1.5625},  {"IQ1_M", 1.75},   {"IQ4_NL", 4.5},
      {"IQ4_XS", 4.25},    {"TQ1_0", 1.6875},  {"TQ2_0", 2.0625}, {"MXFP4", 4.25},
      {"NVFP4", 4.5},      {"Q1_0", 1.125},    {"Q2_0", 2.25}};
  ASSERT_EQ(bits_per_weight.size(), ggml_types.size());
  for (const GgmlType& type : ggml_types) {
    ASSERT_TRUE(bits_per_weight.contains(type.name)) << type.name;
    EXPECT_EQ(8.0 * type.block_bytes / type.block_elements, bits_per_weight.at(type.name))
        << type.name;
  }
}

TEST(GgmlTypes, IdsAreUniqueAndFound) {
  std::set<uint32_t> ids;
  for (const GgmlType& type : ggml_types) {
    EXPECT_TRUE(ids.insert(type.id).second) << type.name;
    EXPECT_EQ(find_ggml_type(type.id), &type);
  }
  for (const uint32_t removed : {4, 5, 31, 32, 33, 36, 37, 38})
    EXPECT_EQ(find_ggml_type(removed), nullptr) << removed;
}

}  // namespace
}  // namespace weightpager::model
