// A mixture of experts, used as an engine does: bytes are the right ones while tripwires tell which
// experts are in use, whatever else the engine does to its memory.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "pager/model/synthetic/make_model.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

class MixtureTest : public PagerTest {
 protected:
  void SetUp() override {
    PagerTest::SetUp();
    if (IsSkipped()) return;
    const model::MakeOptions options{.path = path_,
                                     .type = "q8_0",
                                     .size_bytes = 64 * MiB,
                                     .experts = {.experts = 16, .used = 2},
                                     .overwrite = true,
                                     .on_progress = nullptr};
    const auto made = model::make_model(options);
    ASSERT_TRUE(made) << made.error().message;
    bytes_.resize(made->size_bytes);
    std::ifstream file(path_, std::ios::binary);
    ASSERT_TRUE(file.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size())));
    auto model = model::open_model_file(path_);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    ASSERT_FALSE(model_.experts.empty());
  }
  void TearDown() override { unlink(path_.c_str()); }

  std::byte* map_model() {
    RegionRequest request;
    request.path = request.name = path_;
    request.length_bytes = bytes_.size();
    request.model = &model_;
    auto address = pager_->add_region(request);
    EXPECT_TRUE(address) << address.error().message;
    return *address;
  }

  void read(const std::byte* region, uint64_t offset_bytes, uint64_t size_bytes) {
    if (std::memcmp(region + offset_bytes, bytes_.data() + offset_bytes, size_bytes) != 0) {
      ++wrong_reads_;
    }
  }

  void use(const std::byte* region, const model::Expert& expert) {
    for (const model::Slab& slab : expert.slabs) read(region, slab.offset_bytes, slab.size_bytes);
    ++uses_;
  }

  /// Two experts of every layer; of each layer's sixteen some are liked better.
  void generate(const std::byte* region, int tokens) {
    for (int token = 0; token < tokens; ++token) {
      for (size_t first = 0; first < model_.experts.size(); first += 16) {
        const size_t liked = random_() % 3;
        use(region, model_.experts[first + liked]);
        use(region, model_.experts[first + 3 + random_() % 13]);
      }
    }
  }

  const std::string path_ = "mixture_" + std::to_string(getpid()) + ".gguf";
  std::string bytes_;
  model::Model model_;
  std::mt19937_64 random_{1};
  uint64_t uses_ = 0;
  uint64_t wrong_reads_ = 0;
};

TEST_P(MixtureTest, UsesAreSeenAndBytesAreRight) {
  std::byte* const region = map_model();
  generate(region, 25);
  EXPECT_EQ(wrong_reads_, 0u);
  // Where chunks can be hidden and experts hardly share one, no use is missed.
  const bool tells_all = chunk_bytes() < huge_page_bytes && mapper() != "copy";
  if (tells_all) {
    EXPECT_GT(telemetry_->faults_tripwire, 0u);
    EXPECT_GE(telemetry_->expert_uses, uses_ * 9 / 10);
  }
  EXPECT_LE(telemetry_->expert_uses, uses_);
  pager_->remove(region, bytes_.size());
}

// A chunk that lacks a page is wanted in another place, and the window grows and shrinks.
TEST_P(MixtureTest, TwoMappingsOfItShareTheirChunks) {
  std::byte* const one = map_model();
  std::byte* const other = map_model();
  for (int round = 0; round < 8; ++round) {
    generate(round % 2 == 0 ? one : other, 3);
    pager_->resize(round % 3 == 0 ? 48 * MiB : 32 * MiB);
  }
  read(one, 0, bytes_.size());
  read(other, 0, bytes_.size());
  EXPECT_EQ(wrong_reads_, 0u);
  pager_->remove(one, bytes_.size());
  generate(other, 3);
  EXPECT_EQ(wrong_reads_, 0u);
  pager_->remove(other, bytes_.size());
}

// Parts that go or are closed off while some of their chunks lack a page.
TEST_P(MixtureTest, ItsPartsMayBeUnmappedAndProtected) {
  std::byte* const region = map_model();
  generate(region, 8);
  const uint64_t middle = round_up(bytes_.size() / 2, os_page_bytes);
  pager_->protect(region + middle, bytes_.size() - middle, false);
  pager_->protect(region + middle, bytes_.size() - middle, true);
  generate(region, 4);
  const uint64_t gone_from =
      round_down(model_.experts.back().slabs.front().offset_bytes, os_page_bytes);
  generate(region, 4);
  pager_->remove(region + gone_from, bytes_.size() - gone_from);
  read(region, 0, gone_from);
  EXPECT_EQ(wrong_reads_, 0u);
  EXPECT_EQ(telemetry_->read_errors, 0u);
  pager_->remove(region, gone_from);
}

INSTANTIATE_TEST_SUITE_P(Mappers, MixtureTest, ::testing::ValuesIn(mappers_and_chunks), name_of);

}  // namespace
}  // namespace weightpager
