#include "pager/loop/touch_recorder.h"

#include <gtest/gtest.h>

#include <vector>

#include "pager/base/units.h"

namespace weightpager {
namespace {

using window::no_chunk;

constexpr uint64_t chunk_bytes = 8 * MiB;  // four of them are 32 MiB

TEST(TouchRecorder, RecordsNothingUntilASampleBegins) {
  TouchRecorder recorder;
  recorder.begin(nullptr, chunk_bytes, 64);
  EXPECT_FALSE(recorder.is_recording());
  EXPECT_EQ(recorder.touches_recorded(), 0u);
  ASSERT_TRUE(recorder.begin_sample());
  EXPECT_TRUE(recorder.is_recording());
  recorder.end_sample();
  EXPECT_FALSE(recorder.is_recording());
}

TEST(TouchRecorder, AChunkIsToBeHiddenWhenEnoughOthersWereTouched) {
  TouchRecorder recorder;
  recorder.begin(nullptr, chunk_bytes, 64);
  ASSERT_TRUE(recorder.begin_sample());
  for (window::ChunkId chunk = 10; chunk < 14; ++chunk) {
    EXPECT_EQ(recorder.add_touch(chunk, 0, chunk), no_chunk);
  }
  EXPECT_EQ(recorder.add_touch(14, 0, 14), 10u);
  EXPECT_EQ(recorder.add_touch(15, 0, 15), 11u);
  EXPECT_EQ(recorder.add_touch(12, 0, 16), no_chunk) << "touched just now, it is not hidden";
  EXPECT_EQ(recorder.sample().size(), 7u);
  EXPECT_EQ(recorder.sample()[4].chunk, 14u);
}

TEST(TouchRecorder, ASampleBeginsByHidingEveryChunkOnce) {
  TouchRecorder recorder;
  recorder.begin(nullptr, chunk_bytes, 64);
  EXPECT_FALSE(recorder.is_hiding(3));
  ASSERT_TRUE(recorder.begin_sample());
  std::vector<window::ChunkId> hidden;
  while (recorder.is_hiding(3)) hidden.push_back(recorder.take_to_hide());
  EXPECT_EQ(hidden, (std::vector<window::ChunkId>{0, 1, 2}));
  recorder.end_sample();
  ASSERT_TRUE(recorder.begin_sample());
  EXPECT_TRUE(recorder.is_hiding(3));
  EXPECT_TRUE(recorder.sample().empty()) << "a new sample forgets the last one";
}

}  // namespace
}  // namespace weightpager
