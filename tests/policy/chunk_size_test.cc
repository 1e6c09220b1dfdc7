// Chunks are huge pages, but for mixtures whose experts would fill only a few of them.
#include "pager/policy/chunk_size.h"

#include <gtest/gtest.h>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

model::Model mixture_of(const std::vector<uint64_t>& slab_bytes) {
  model::Model model;
  for (uint32_t index = 0; index < 2; ++index) {
    model.experts.push_back({.layer = 0, .index = index, .slabs = {}});
    for (const uint64_t bytes : slab_bytes) {
      model.experts.back().slabs.push_back({.size_bytes = bytes});
    }
  }
  return model;
}

TEST(ChunkSize, IsAHugePageWithoutExperts) {
  model::Model model;
  model.tensors.push_back({.name = "small", .type = "F16", .shape = {}, .size_bytes = 10 * KiB});
  EXPECT_EQ(chunk_bytes_for(model), 2 * MiB);
}

TEST(ChunkSize, IsASixteenthOfASlabOrLess) {
  EXPECT_EQ(chunk_bytes_for(mixture_of({3264 * KiB, 3264 * KiB, 3264 * KiB})), 128 * KiB);
  EXPECT_EQ(chunk_bytes_for(mixture_of({2 * MiB})), 128 * KiB);
  EXPECT_EQ(chunk_bytes_for(mixture_of({2 * MiB - 1})), 64 * KiB);
  EXPECT_EQ(chunk_bytes_for(mixture_of({32 * MiB})), 2 * MiB);
  EXPECT_EQ(chunk_bytes_for(mixture_of({100 * MiB})), 2 * MiB);
}

TEST(ChunkSize, IsNeverBelowItsLeast) {
  EXPECT_EQ(chunk_bytes_for(mixture_of({100 * KiB})), 64 * KiB);
  EXPECT_EQ(chunk_bytes_for(mixture_of({1})), 64 * KiB);
}

TEST(ChunkSize, TheSmallestSlabOfAnyExpertDecides) {
  EXPECT_EQ(chunk_bytes_for(mixture_of({16 * MiB, 8 * MiB, 16 * MiB})), 512 * KiB);
  model::Model model = mixture_of({32 * MiB});
  model.experts[1].slabs[0].size_bytes = 4 * MiB;
  EXPECT_EQ(chunk_bytes_for(model), 256 * KiB);
}

TEST(ChunkSize, ScalesBesideTheWeightsDoNotCount) {
  EXPECT_EQ(chunk_bytes_for(mixture_of({16 * MiB, 8 * KiB, 16 * MiB, 8 * KiB})), 1 * MiB);
}

TEST(ChunkSize, ASmallWindowBesideCopiesHas64OfThem) {
  model::Model model;
  model.layers.resize(4);
  EXPECT_EQ(chunk_bytes_beside_copies(model, GiB), 2 * MiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 128 * MiB), 2 * MiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 128 * MiB - 1), 1 * MiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 64 * MiB), 1 * MiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 64 * MiB - 1), 512 * KiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 32 * MiB), 512 * KiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 16 * MiB), 512 * KiB);
}

TEST(ChunkSize, ManyLayersBesideCopiesHave16OfThemEach) {
  model::Model model;
  model.layers.resize(34);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 34 * 32 * MiB), 2 * MiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 34 * 32 * MiB - 1), 1 * MiB);
  EXPECT_EQ(chunk_bytes_beside_copies(model, 34 * 8 * MiB), 512 * KiB);
}

}  // namespace
}  // namespace weightpager::policy
