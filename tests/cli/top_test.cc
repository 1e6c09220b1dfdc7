// What `map` and `top` draw, for screens of any size.
#include <gtest/gtest.h>

#include "pager/base/units.h"
#include "tools/commands/top/top_frame.h"
#include "tools/live/residency.h"

namespace weightpager::tools {
namespace {

std::string plain(const Line& line) {
  std::string text;
  for (const Text& it : line) text += it.text;
  return text;
}

/// Characters of UTF-8 text.
size_t columns_of(const std::string& text) {
  size_t columns = 0;
  for (char letter : text) columns += (letter & 0xC0) != 0x80;
  return columns;
}

TEST(ShareStrip, GivesEachStateItsShare) {
  const Residency half = {.size_bytes = 100,
                          .mapped_bytes = 50,
                          .ready_bytes = 10,
                          .reading_bytes = 10,
                          .absent_bytes = 30,
                          .pinned_bytes = 20};
  EXPECT_EQ(share_strip(half, 10, ascii_glyphs), "PP###+~...");
}

TEST(ShareStrip, LeavesOutNothingThatIsThere) {
  const Residency sliver = {.size_bytes = 1'000'000, .reading_bytes = 1, .absent_bytes = 999'999};
  EXPECT_EQ(share_strip(sliver, 8, ascii_glyphs), "~.......");
  EXPECT_EQ(share_strip({}, 8, ascii_glyphs), "");
}

TEST(ShareStrip, FillsItsColumnsWhateverTheShares) {
  for (uint64_t mapped = 0; mapped <= 97; ++mapped) {
    const Residency it = {.mapped_bytes = mapped,
                          .ready_bytes = 3,
                          .reading_bytes = 2,
                          .absent_bytes = 97 - mapped,
                          .failed_bytes = 1,
                          .pinned_bytes = mapped / 3};
    for (size_t columns : {6, 7, 31, 200}) {
      EXPECT_EQ(share_strip(it, columns, ascii_glyphs).size(), columns) << mapped;
    }
  }
}

TEST(ChunkStrip, ShowsWhatMostOfAColumnIs) {
  EXPECT_EQ(chunk_strip("mmm.MMMM_.yyRrrx", 4, ascii_glyphs), "#P+~");
  // Fewer chunks than columns.
  EXPECT_EQ(chunk_strip("mM.yrx_RYX", 10, ascii_glyphs), "#P.+~!.~+!");
  EXPECT_EQ(chunk_strip("m.y", 7, ascii_glyphs), "###..++");
  EXPECT_EQ(chunk_strip("", 80, ascii_glyphs), "");
}

TEST(StatesOf, AreTakenFromWhereALayerLies) {
  EXPECT_EQ(states_of({.chunks = {{1, 2}, {4, 1}}}, "m.yMr"), ".yr");
  // The two answers may be of different times.
  EXPECT_EQ(states_of({.chunks = {{3, 9}, {7, 1}}}, "m.yMr"), "Mr");
}

TopView busy() {
  TopView view{
      .process_id = 4711,
      .command = "llama-cli",
      .mapper = "move",
      .policy = "pin-stream",
      .window_bytes = 1 * GiB,
      .resident_bytes = 512 * MiB,
      .pinned_bytes = 300 * MiB,
      .ring_bytes = 128 * MiB,
      .passes = 42,
      .layers = 100,
      .layer = 50,
      .layer_name = "block 49",
      .read_bytes = 10 * GiB,
      .read_bytes_per_s = 2.5 * static_cast<double>(GiB),
      .touches = {.demand_per_s = 3, .late_per_s = 7, .tripwire_per_s = 400, .hidden_per_s = 90},
      .stall_share = 0.41,
      .read_history = {0, 1, 2},
      .stall_history = {0.1, 1},
      .rows_are = "layer"};
  for (int i = 0; i < 100; ++i) {
    view.rows.push_back({{.name = "layer " + std::to_string(i),
                          .size_bytes = 40 * MiB,
                          .mapped_bytes = static_cast<uint64_t>(i % 40) * MiB,
                          .absent_bytes = static_cast<uint64_t>(40 - i % 40) * MiB},
                         i == 17 ? 0.5 : 0.0});
  }
  return view;
}

TEST(TopFrame, FitsEveryScreen) {
  for (const size_t columns : {1, 20, 40, 79, 80, 81, 132, 200}) {
    for (const size_t lines : {1, 2, 5, 8, 9, 24, 50}) {
      for (const bool is_unicode : {false, true}) {
        for (const bool shows_help : {false, true}) {
          TopView view = busy();
          view.shows_help = shows_help;
          const auto frame = top_frame(view, {columns, lines}, is_unicode);
          ASSERT_EQ(frame.size(), lines);
          for (const Line& line : frame) EXPECT_LE(columns_of(plain(line)), columns);
        }
      }
    }
  }
}

TEST(TopFrame, ShowsTheFigures) {
  const auto frame = top_frame(busy(), {80, 24}, false);
  EXPECT_NE(plain(frame[0]).find("4711 llama-cli"), std::string::npos);
  EXPECT_NE(plain(frame[1]).find("512 of 1024 MiB, pinned 300, ring 128"), std::string::npos);
  EXPECT_NE(plain(frame[2]).find("51/100 block 49, pass 42"), std::string::npos);
  EXPECT_NE(plain(frame[3]).find("2.50 GiB/s, 10.0 GiB so far"), std::string::npos);
  EXPECT_NE(plain(frame[4]).find("41.0 %"), std::string::npos);
  EXPECT_NE(plain(frame[5]).find("demand 3  late 7  tripwire 400  hidden 90 (90 %)"),
            std::string::npos);
  EXPECT_NE(plain(frame.back()).find("q quit"), std::string::npos);
}

TEST(TopFrame, HalfOfTheGaugeIsFull) {
  const std::string line = plain(top_frame(busy(), {80, 24}, false)[1]);
  const auto full = std::count(line.begin(), line.end(), '#');
  const auto empty = std::count(line.begin(), line.end(), '.');
  EXPECT_GT(full, 10);
  EXPECT_LE(std::abs(full - empty), 1);
}

TEST(TopFrame, KeepsTheCursorInSight) {
  for (const uint64_t layer : {0, 1, 8, 50, 98, 99}) {
    TopView view = busy();
    view.layer = layer;
    const std::string name = "layer " + std::to_string(layer) + " ";
    const auto frame = top_frame(view, {80, 24}, false);
    EXPECT_TRUE(std::any_of(frame.begin() + 7, frame.end(), [&](const Line& line) {
      return plain(line).starts_with(name) && line.front().style == Style::bright;
    })) << layer;
  }
}

TEST(TopFrame, SortsRows) {
  TopView view = busy();
  view.order = RowOrder::stall;
  EXPECT_TRUE(plain(top_frame(view, {80, 24}, false)[8]).starts_with("layer 17 "));
  view.order = RowOrder::resident;
  EXPECT_TRUE(plain(top_frame(view, {80, 24}, false)[8]).starts_with("layer 39 "));
}

TEST(TopFrame, ASnapshotHasAllRowsAndNoKeys) {
  const auto frame = top_frame(busy(), {80, 24}, false, true);
  EXPECT_EQ(frame.size(), 108u);
  for (const Line& line : frame) EXPECT_EQ(plain(line).find("q quit"), std::string::npos);
}

TEST(TopFrame, AMessageTakesTheKeysPlace) {
  TopView view = busy();
  view.message = "window: 1.0 GiB -> 1.1 GiB";
  EXPECT_TRUE(plain(top_frame(view, {80, 24}, false).back()).starts_with(view.message));
}

TEST(TopFrame, HasALineOfTheEnginesOwnMemoryWhereItIsServed) {
  TopView view = busy();
  const auto lines_about_memory = [&] {
    std::vector<std::string> found;
    for (const Line& line : top_frame(view, {80, 24}, false)) {
      if (plain(line).rfind("memory ", 0) == 0) found.push_back(plain(line));
    }
    return found;
  };
  EXPECT_TRUE(lines_about_memory().empty());
  view.memory = HeldMemory{7, 512 * MiB, 300 * MiB, 200 * MiB, 12 * MiB};
  ASSERT_EQ(lines_about_memory().size(), 1u);
  EXPECT_EQ(lines_about_memory()[0],
            "memory   7 blocks, 512 MiB: written 300, of files 200, zeros 12");
  view.rows = {{{.name = "written", .size_bytes = 4 * MiB, .written_bytes = 4 * MiB}, {}}};
  const std::vector<Line> lines = top_frame(view, {80, 24}, false);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const Line& line) {
    return plain(line).rfind("written                    4    0    0      - ", 0) == 0;
  }));
  EXPECT_EQ(top_frame(view, {80, 24}, false).size(), 24u);
}

}  // namespace
}  // namespace weightpager::tools
