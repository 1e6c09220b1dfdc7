// How far is read ahead, and what it was good for.
#include "pager/policy/read_ahead.h"

#include <gtest/gtest.h>

namespace weightpager::policy {
namespace {

TEST(ReadAhead, ReachesFurtherWhileTheEngineGoesOn) {
  ReadAhead ahead;
  ahead.reset(100);
  ahead.set_max(2);
  ahead.note_read(1);
  EXPECT_FALSE(ahead.is_full());
  ahead.note_read(2);
  EXPECT_TRUE(ahead.is_full());
  ahead.reach_further(3);
  ahead.note_read(3);
  EXPECT_TRUE(ahead.is_full());
  ahead.note_passed(1, false);
  EXPECT_FALSE(ahead.is_full());
  EXPECT_FALSE(ahead.contains(1));
}

TEST(ReadAhead, SaysWhatWasThereInTime) {
  ReadAhead ahead;
  ahead.reset(100);
  for (ChunkId chunk : {1u, 2u, 3u}) ahead.note_read(chunk);
  ahead.note_wait(2);
  EXPECT_TRUE(ahead.note_passed(1, false));
  EXPECT_FALSE(ahead.note_passed(1, false));  // once
  EXPECT_FALSE(ahead.note_passed(2, false));  // the engine waited for it
  EXPECT_FALSE(ahead.note_passed(3, true));   // still being read
  EXPECT_FALSE(ahead.note_passed(4, false));  // not read ahead
}

TEST(ReadAhead, SaysWhatWasReadInVain) {
  ReadAhead ahead;
  ahead.reset(100);
  ahead.note_read(1);
  ahead.note_read(2);
  EXPECT_TRUE(ahead.note_evicted(1));
  EXPECT_FALSE(ahead.note_evicted(1));
  ahead.forget();
  EXPECT_FALSE(ahead.note_evicted(2));
}

}  // namespace
}  // namespace weightpager::policy
