#include "pager/loop/waiters.h"

#include <gtest/gtest.h>

#include <memory>

#include "pager/telemetry/telemetry.h"

namespace weightpager {
namespace {

using window::ChunkState;

class WaitersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto created = telemetry::create("");
    ASSERT_TRUE(created);
    telemetry_ = *created;
    waiters_ = std::make_unique<Waiters>(*telemetry_);
    waiters_->resize(4);
    auto file = io::ModelFile::open("/proc/self/exe");
    ASSERT_TRUE(file) << file.error().message;
    served_ = std::make_unique<ServedFile>(std::move(*file));
    served_->chunks = 4;
    served_->layers = std::make_shared<ServedLayers>("model", 4 * chunk_bytes_max, model::Model{},
                                                     chunk_bytes_max, 4);
  }

  telemetry::Telemetry* telemetry_ = nullptr;
  std::unique_ptr<Waiters> waiters_;
  std::unique_ptr<ServedFile> served_;
};

TEST_F(WaitersTest, StallIsTheTimeWithAnyThreadWaiting) {
  waiters_->begin(0, ChunkState::absent, 100);
  waiters_->begin(1, ChunkState::reading, 150);
  EXPECT_EQ(waiters_->chunks(), 2u);
  waiters_->end(*served_, 0, 300);
  EXPECT_EQ(telemetry_->stall_ns, 0u);  // one still waits
  waiters_->end(*served_, 1, 400);
  EXPECT_EQ(telemetry_->stall_ns, 300u);
  EXPECT_EQ(waiters_->chunks(), 0u);
  waiters_->begin(2, ChunkState::ready, 1000);
  waiters_->end(*served_, 2, 1007);
  EXPECT_EQ(telemetry_->stall_ns, 307u);
}

TEST_F(WaitersTest, LayersShareTheStallOutAmongThem) {
  waiters_->begin(0, ChunkState::absent, 100);
  waiters_->begin(1, ChunkState::absent, 100);
  waiters_->end(*served_, 0, 300);
  waiters_->end(*served_, 1, 350);
  EXPECT_EQ(served_->layers->stall_ns(ServedLayers::no_layer), telemetry_->stall_ns);
}

TEST_F(WaitersTest, RetriesComeInTheOrderInWhichTheyWereAskedFor) {
  EXPECT_FALSE(waiters_->is_any_to_retry());
  waiters_->retry_later(2);
  waiters_->retry_later(0);
  EXPECT_EQ(waiters_->retries(), 2u);
  EXPECT_EQ(waiters_->take_retry(), 2u);
  EXPECT_EQ(waiters_->take_retry(), 0u);
  EXPECT_FALSE(waiters_->is_any_to_retry());
}

TEST_F(WaitersTest, NewChunksHaveNoWaiters) {
  waiters_->begin(3, ChunkState::absent, 1);
  waiters_->resize(9);
  EXPECT_TRUE(waiters_->are_at(3));
  EXPECT_FALSE(waiters_->are_at(8));
}

}  // namespace
}  // namespace weightpager
