// Makes the lines that `weightpager top` shows at one time: a pure function, for any size of
// screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/live/residency.h"

namespace weightpager::tools {

enum class Style : uint8_t { plain, title, bright, good, warning };

struct Text {
  std::string text;
  Style style = Style::plain;
};
using Line = std::vector<Text>;

enum class RowOrder : uint8_t { place, stall, resident, size };
inline constexpr const char* order_names[] = {"place", "stall", "resident", "size"};

/// A layer; if several files are served, a file; or a block of the engine's own memory.
struct TopRow {
  Residency residency;
  std::optional<double> stall_share;  // of the time since the last look; of blocks not known
};

/// First touches of chunks since the last look, a second (docs/reference/glossary.md).
struct TouchRates {
  double demand_per_s = 0;
  double late_per_s = 0;
  double tripwire_per_s = 0;
  double hidden_per_s = 0;
};

/// Large blocks of the engine's own (`run --spill`), and what they hold.
struct HeldMemory {
  uint64_t blocks = 0;
  uint64_t size_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t lazy_bytes = 0;
  uint64_t zero_bytes = 0;
};

struct TopView {
  int64_t process_id = 0;
  std::string command;
  std::string mapper;
  std::string policy;

  uint64_t window_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t pinned_bytes = 0;
  uint64_t ring_bytes = 0;

  uint64_t passes = 0;
  uint64_t layers = 0;  // 0 if it is not known where the engine is
  uint64_t layer = 0;
  std::string layer_name;

  uint64_t read_bytes = 0;
  double read_bytes_per_s = 0;
  TouchRates touches;
  double stall_share = 0;
  std::vector<double> read_history;  // bytes a second, oldest first
  std::vector<double> stall_history;

  std::optional<HeldMemory> memory;

  std::string rows_are;  // "layer", "model", "block holds"
  std::vector<TopRow> rows;
  RowOrder order = RowOrder::place;
  bool is_paused = false;
  bool shows_help = false;
  std::string message;  // shown instead of the keys
};

struct ScreenSize {
  size_t columns = 80;
  size_t lines = 24;
};

/// Returns exactly size.lines lines, none longer than size.columns; the last one has the keys. With
/// `is_snapshot` there are as many lines as are needed, and no keys.
std::vector<Line> top_frame(const TopView& view, ScreenSize size, bool is_unicode,
                            bool is_snapshot = false);

}  // namespace weightpager::tools
