// Every kind of backing memory keeps the same contract: get, show, hide, evict, fail. The kernel
// module's is tried under an emulated kernel (tests/kernels), where it can be loaded.
#include "pager/window/backing_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "pager/fault/userfaultfd.h"
#include "pager/window/region.h"
#include "tests/pager/lacks.h"

namespace weightpager::window {
namespace {

constexpr uint32_t window_chunks = 8;
constexpr uint32_t file_chunks = 4;

struct Kind {
  const char* mapper;
  uint64_t chunk_bytes;
  bool is_spilled = false;
};

class BackingMemoryTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(lack_for_mapper(GetParam().mapper));
    if (GetParam().is_spilled) WP_SKIP_FOR(lack_for_mapper("move"));
    auto uffd = fault::Userfaultfd::open();
    ASSERT_TRUE(uffd) << uffd.error().message;
    own_ = std::make_unique<AddressSpace>(std::move(*uffd));
    const bool spills = GetParam().is_spilled;
    const auto mapper = choose_mapper(GetParam().mapper, *own_, chunk_bytes(), spills, spills);
    ASSERT_TRUE(mapper) << mapper.error().message;
    ASSERT_TRUE(doorbell_.hang(own_->uffd()));
    auto memory = open_backing_memory(*mapper,
                                      {.slots = window_chunks,
                                       .slots_max = window_chunks,
                                       .chunk_bytes = chunk_bytes(),
                                       .spills = spills},
                                      {*own_, table_, doorbell_});
    ASSERT_TRUE(memory) << memory.error().message;
    memory_ = std::move(*memory);
    file_.chunk_bytes = chunk_bytes();
    file_.chunks = file_chunks;
    file_.size_bytes = file_chunks * chunk_bytes();
    file_.first_chunk = table_.add_chunks(file_chunks);
    if (!spills) {
      ASSERT_TRUE(memory_->add_file(file_));
    }
    add_region();
    get_slots();
  }

  // Threads of the pool may ring until the userfaultfd is closed.
  void TearDown() override {
    file_.regions.clear();
    file_.backing.reset();
    own_.reset();
    memory_.reset();
  }

  uint64_t chunk_bytes() const { return GetParam().chunk_bytes; }

  void add_region() {
    auto region = memory_->reserve(file_, {.length_bytes = file_.size_bytes,
                                           .file_size_bytes = file_.size_bytes,
                                           .is_writable = GetParam().is_spilled,
                                           .is_spilled = GetParam().is_spilled});
    ASSERT_TRUE(region) << region.error().message;
    file_.regions.push_back(std::move(*region));
    memory_->on_region_added(file_, *file_.regions.back());
    file_.favoured = file_.regions.back().get();
  }

  // Answers rings of the pool's threads, as the pager's loop does.
  void get_slots() {
    for (int tries = 0; tries < 10'000 && table_.free_slots() < file_chunks; ++tries) {
      answer_rings();
      memory_->supply_slots(window_chunks, true);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GE(table_.free_slots(), file_chunks);
  }

  void answer_rings() {
    std::array<fault::Fault, 16> faults;
    const size_t count = own_->uffd().read_faults(faults);
    for (size_t i = 0; i < count; ++i) {
      if (doorbell_.owns(faults[i].address)) doorbell_.answer(own_->uffd(), faults[i].address);
    }
  }

  // absent → reading
  bool start_read(ChunkId chunk, bool is_memory_new) {
    table_.start_read(chunk);
    return memory_->prepare_slot(file_, chunk, is_memory_new);
  }

  // absent → ready
  void read(ChunkId chunk, unsigned char value, bool is_memory_new = false) {
    start_read(chunk, is_memory_new);
    std::memset(memory_->bytes_of(file_, chunk), value, chunk_bytes());
    memory_->finish_read(file_, chunk);
    table_.finish_read(chunk);
  }

  fault::Outcome show(ChunkId chunk) { return memory_->show(file_, chunk, false, false); }

  // Of the first region.
  unsigned char first_byte(ChunkId chunk) const {
    const Region& region = *file_.regions.front();
    return static_cast<unsigned char>(*region.chunk_address(file_.index_in(region, chunk)));
  }
  unsigned char last_byte(ChunkId chunk) const {
    const Region& region = *file_.regions.front();
    return static_cast<unsigned char>(
        region.chunk_address(file_.index_in(region, chunk))[chunk_bytes() - 1]);
  }

  std::unique_ptr<AddressSpace> own_;
  ChunkTable table_{window_chunks};
  fault::Doorbell doorbell_;
  std::unique_ptr<BackingMemory> memory_;
  ShownFile file_;
};

TEST_P(BackingMemoryTest, ShowsWhatWasRead) {
  read(1, 0x11);
  ASSERT_EQ(show(1), fault::Outcome::done);
  EXPECT_EQ(table_.state(1), ChunkState::mapped);
  EXPECT_TRUE(file_.is_placed(1));
  EXPECT_EQ(first_byte(1), 0x11);
  EXPECT_EQ(last_byte(1), 0x11);
}

// A kind that cannot do it in one step does nothing.
TEST_P(BackingMemoryTest, NeighboursAreShownAndEvictedTogether) {
  for (ChunkId chunk = 0; chunk < 3; ++chunk) read(chunk, static_cast<unsigned char>(0x20 + chunk));
  const bool is_together = memory_->show_together(file_, {0, 3});
  EXPECT_EQ(is_together, GetParam().mapper != std::string("copy"));
  for (ChunkId chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(table_.state(chunk), is_together ? ChunkState::mapped : ChunkState::ready);
    EXPECT_EQ(file_.is_placed(chunk), is_together);
    if (!is_together) {
      ASSERT_EQ(show(chunk), fault::Outcome::done);
    }
    EXPECT_EQ(first_byte(chunk), 0x20 + chunk);
    EXPECT_EQ(last_byte(chunk), 0x20 + chunk);
  }
  for (uint32_t evicted = 0; evicted < 3;) {
    const uint32_t count = memory_->evict(file_, {evicted, 3 - evicted});
    ASSERT_GT(count, 0u);
    evicted += count;
  }
  for (ChunkId chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(table_.state(chunk), ChunkState::absent);
    EXPECT_FALSE(file_.is_placed(chunk));
  }
  // What comes next into their place is seen, and nothing of what went.
  read(1, 0x77);
  ASSERT_EQ(show(1), fault::Outcome::done);
  EXPECT_EQ(first_byte(1), 0x77);
}

// One of them is shown already, or waited for in another region: each goes by itself.
TEST_P(BackingMemoryTest, ChunksThatDifferAreNotShownTogether) {
  read(0, 0x31);
  read(1, 0x32);
  ASSERT_EQ(show(1), fault::Outcome::done);
  EXPECT_FALSE(memory_->show_together(file_, {0, 2}));
  EXPECT_EQ(table_.state(0), ChunkState::ready);
  read(2, 0x33);
  read(3, 0x34);
  add_region();
  file_.regions.front()->notes(3).is_waited_for = true;
  EXPECT_FALSE(memory_->show_together(file_, {2, 2}));
  EXPECT_EQ(table_.state(2), ChunkState::ready);
  EXPECT_EQ(table_.state(3), ChunkState::ready);
}

TEST_P(BackingMemoryTest, HidesAndShowsAgain) {
  read(0, 0x22);
  ASSERT_EQ(show(0), fault::Outcome::done);
  if (!memory_->can_hide()) {
    EXPECT_EQ(table_.slot(0), no_slot) << "a chunk that keeps its slot can be hidden";
    return;
  }
  ASSERT_TRUE(memory_->hide(file_, 0, false));
  EXPECT_EQ(table_.state(0), ChunkState::ready);
  EXPECT_FALSE(file_.is_placed(0));
  ASSERT_EQ(show(0), fault::Outcome::done);
  EXPECT_EQ(last_byte(0), 0x22);
}

TEST_P(BackingMemoryTest, AChunkThatIsUsedWholeIsHiddenByAPageAndComesBack) {
  if (!memory_->can_hide() || GetParam().is_spilled) return;  // experts lie in files
  read(0, 0x23);
  ASSERT_EQ(show(0), fault::Outcome::done);
  ASSERT_TRUE(memory_->hide(file_, 0, true));
  memory_->flush_hidden();
  EXPECT_EQ(table_.state(0), ChunkState::ready);
  ASSERT_EQ(show(0), fault::Outcome::done);
  EXPECT_EQ(table_.state(0), ChunkState::mapped);
  EXPECT_EQ(first_byte(0), 0x23);
  EXPECT_EQ(last_byte(0), 0x23);
}

TEST_P(BackingMemoryTest, EvictsWhatIsShownAndItsSlotServesAnother) {
  for (ChunkId chunk = 0; chunk < file_chunks; ++chunk) {
    read(chunk, static_cast<unsigned char>(0x30 + chunk));
    ASSERT_EQ(show(chunk), fault::Outcome::done);
  }
  uint32_t evicted = 0;
  while (evicted < file_chunks) {
    const uint32_t count = memory_->evict(file_, {evicted, file_chunks - evicted});
    ASSERT_GT(count, 0u);
    evicted += count;
  }
  EXPECT_EQ(table_.resident(), 0u);
  for (ChunkId chunk = 0; chunk < file_chunks; ++chunk) {
    EXPECT_EQ(table_.state(chunk), ChunkState::absent);
    EXPECT_FALSE(file_.is_placed(chunk));
  }
  get_slots();
  read(2, 0x44);
  ASSERT_EQ(show(2), fault::Outcome::done);
  EXPECT_EQ(first_byte(2), 0x44);
}

TEST_P(BackingMemoryTest, EvictsAChunkThatWasHiddenByAPage) {
  if (!memory_->can_hide() || GetParam().is_spilled) return;  // experts lie in files
  read(3, 0x55);
  ASSERT_EQ(show(3), fault::Outcome::done);
  ASSERT_TRUE(memory_->hide(file_, 3, true));
  memory_->flush_hidden();
  EXPECT_EQ(memory_->evict(file_, {3, 1}), 1u);
  EXPECT_EQ(table_.state(3), ChunkState::absent);
}

TEST_P(BackingMemoryTest, AChunkThatHasFailedHasNoMemory) {
  read(1, 0x66);
  ASSERT_EQ(show(1), fault::Outcome::done);
  if (table_.slot(1) == no_slot) return;  // copied: it has left its slot, and cannot fail any more
  memory_->fail_chunk(file_, 1);
  EXPECT_EQ(table_.state(1), ChunkState::failed);
  EXPECT_EQ(table_.resident(), 0u);
  memory_->fail_chunk(file_, 1);
  EXPECT_EQ(table_.state(1), ChunkState::failed);
}

TEST_P(BackingMemoryTest, WhoeverWritesNewMemoryFirstMayGetIt) {
  // A view gets memory as it is written to. So does a slot beside views, unless it is small: small
  // slots are always registered.
  const bool is_view = GetParam().mapper == std::string("collapse") && !GetParam().is_spilled;
  const bool is_beside_views = GetParam().mapper == std::string("collapse") && !is_view;
  EXPECT_EQ(start_read(0, true), is_view || (is_beside_views && chunk_bytes() == huge_page_bytes));
  read(1, 0x67, true);
  ASSERT_EQ(show(1), fault::Outcome::done);
  EXPECT_EQ(first_byte(1), 0x67);
  EXPECT_EQ(last_byte(1), 0x67);
  EXPECT_EQ(memory_->evict(file_, {1, 1}), 1u);
  read(1, 0x68);
  ASSERT_EQ(show(1), fault::Outcome::done);
  EXPECT_EQ(last_byte(1), 0x68);
}

// Nothing was written to the slot. Who writes to it next must not wait for memory.
TEST_P(BackingMemoryTest, ASlotWhoseReadFailedServesAnother) {
  for (const bool is_failed : {false, true}) {
    const ChunkId chunk = is_failed ? 1 : 0;
    start_read(chunk, true);
    if (is_failed) {
      memory_->fail_chunk(file_, chunk);
    } else {
      table_.finish_read(chunk);
      memory_->release(file_, chunk);
    }
    read(2, 0x69);
    ASSERT_EQ(show(2), fault::Outcome::done);
    EXPECT_EQ(last_byte(2), 0x69);
    EXPECT_EQ(memory_->evict(file_, {2, 1}), 1u);
  }
}

TEST_P(BackingMemoryTest, ASecondRegionIsShownTheChunkThatAnotherHas) {
  if (GetParam().is_spilled) return;  // the engine's own memory is in one place only
  read(1, 0x77);
  ASSERT_EQ(show(1), fault::Outcome::done);
  add_region();
  Region& second = *file_.regions.back();
  second.notes(1).is_waited_for = true;
  fault::Outcome outcome = memory_->show(file_, 1, true, false);
  if (outcome == fault::Outcome::busy) {
    // It lay in the first region alone; who uses it there had a moment.
    outcome = memory_->show(file_, 1, true, true);
  }
  ASSERT_EQ(outcome, fault::Outcome::done);
  EXPECT_TRUE(second.notes(1).is_placed);
  EXPECT_EQ(static_cast<unsigned char>(*second.chunk_address(1)), 0x77);
}

TEST_P(BackingMemoryTest, TrimmedSlotsComeBack) {
  const uint32_t slots = table_.free_slots();
  memory_->trim_slots(2);
  EXPECT_EQ(table_.free_slots(), 2u);
  get_slots();
  EXPECT_LE(file_chunks, table_.free_slots());
  EXPECT_LE(table_.free_slots(), std::max(slots, window_chunks));
  read(0, 0x7f);
  ASSERT_EQ(show(0), fault::Outcome::done);
  EXPECT_EQ(last_byte(0), 0x7f);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BackingMemoryTest,
                         ::testing::Values(Kind{"move", 2 * MiB}, Kind{"move", 64 * KiB},
                                           Kind{"collapse", 2 * MiB}, Kind{"collapse", 64 * KiB},
                                           Kind{"copy", 2 * MiB}, Kind{"copy", 64 * KiB},
                                           Kind{"move", 2 * MiB, true},
                                           Kind{"collapse", 2 * MiB, true},
                                           Kind{"collapse", 64 * KiB, true}),
                         [](const auto& it) {
                           return std::string(it.param.mapper) +
                                  (it.param.is_spilled ? "_spilled" : "") +
                                  (it.param.chunk_bytes < huge_page_bytes ? "_small" : "");
                         });

TEST(ChooseMapper, RefusesByNameWhatDoesNotWorkHere) {
  WP_SKIP_FOR(lack_of_userfaultfd());
  auto uffd = fault::Userfaultfd::open();
  ASSERT_TRUE(uffd) << uffd.error().message;
  AddressSpace own(std::move(*uffd));
  if (::access("/dev/weightpager", F_OK) == 0) return;  // then it works, which tests/kmod shows
  const auto chosen = choose_mapper("module", own, chunk_bytes_max);
  ASSERT_FALSE(chosen);
  EXPECT_NE(chosen.error().message.find("/dev/weightpager"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::window
