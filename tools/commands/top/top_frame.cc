#include "tools/commands/top/top_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

constexpr size_t top_label_columns = 8;
constexpr size_t name_columns = 20;
constexpr size_t columns_min = 40;
constexpr size_t legend_columns = 68;
constexpr double stall_share_high = 0.25;

const char* const help_lines[] = {
    "  q        quit",
    "  h        this help; any key ends it",
    "  space    stop looking, and go on",
    "  s        sort rows: by place, time waited for, bytes in memory, size",
    "  + -      a larger, a smaller window: an eighth each",
    "",
    "  hidden   chunks that were there before the engine came",
    "  demand   touches that waited for a whole read",
    "  late     touches that waited for the rest of a read",
    "  tripwire touches that waited microseconds, and say where the engine is",
    "  stall    share of the time with an engine thread waiting",
};

std::string repeated(const char* glyph, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += glyph;
  return text;
}

Line labelled(const char* label) {
  return {{fmt::format("{:<{}}", label, top_label_columns), Style::bright}};
}

/// "[####....]", `columns` wide with its brackets.
std::string gauge(double share, size_t columns, bool is_unicode) {
  if (columns < 3) return "";
  const size_t inner = columns - 2;
  const auto full =
      static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(inner)));
  return "[" + repeated(is_unicode ? "█" : "#", full) +
         repeated(is_unicode ? "·" : ".", inner - full) + "]";
}

/// The latest values, one for each column, right-aligned. The highest value fills its column.
std::string history(const std::vector<double>& values, size_t columns, double full,
                    bool is_unicode) {
  static constexpr const char* blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* letters[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
  constexpr size_t steps = std::size(blocks) - 1;
  const size_t shown = std::min(values.size(), columns);
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(shown);
  if (full <= 0 && shown > 0) full = *std::max_element(begin, values.end());
  std::string text(columns - shown, ' ');
  for (auto it = begin; it != values.end(); ++it) {
    const double share = full > 0 ? std::clamp(*it / full, 0.0, 1.0) : 0;
    const auto step = static_cast<size_t>(std::ceil(share * static_cast<double>(steps)));
    text += is_unicode ? blocks[step] : letters[step];
  }
  return text;
}

Line title_line(const TopView& view, size_t columns) {
  std::string text = fmt::format("{} {}   mapper {}   policy {}", view.process_id, view.command,
                                 view.mapper, view.policy);
  if (view.is_paused) text += "   PAUSED";
  return {{fmt::format("{:<{}.{}}", text, columns, columns), Style::title}};
}

Line window_line(const TopView& view, size_t columns, bool is_unicode) {
  const std::string figures = fmt::format(
      " {:.0f} of {:.0f} MiB, pinned {:.0f}, ring {:.0f}", mebibytes(view.resident_bytes),
      mebibytes(view.window_bytes), mebibytes(view.pinned_bytes), mebibytes(view.ring_bytes));
  const double share = view.window_bytes == 0 ? 0
                                              : static_cast<double>(view.resident_bytes) /
                                                    static_cast<double>(view.window_bytes);
  const size_t rest = columns - std::min(columns, top_label_columns + figures.size());
  Line line = labelled("window");
  line.push_back({gauge(share, rest, is_unicode), Style::good});
  line.push_back({figures});
  return line;
}

/// The line that shows how far the engine is in the layers.
Line layer_line(const TopView& view, size_t columns, bool is_unicode) {
  Line line = labelled("layer");
  if (view.layers == 0) {
    line.push_back({fmt::format("not known, pass {}", view.passes)});
    return line;
  }
  const std::string figures = fmt::format(" {}/{} {:.20}, pass {}", view.layer + 1, view.layers,
                                          view.layer_name, view.passes);
  const size_t rest = columns - std::min(columns, top_label_columns + figures.size());
  if (rest > 2) {
    const size_t inner = rest - 2;
    const size_t at = std::min(view.layer * inner / view.layers, inner - 1);
    line.push_back({"[" + repeated(is_unicode ? "─" : "-", at)});
    line.push_back({is_unicode ? "▶" : ">", Style::bright});
    line.push_back({repeated(is_unicode ? "·" : ".", inner - at - 1) + "]"});
  }
  line.push_back({figures});
  return line;
}

Line read_line(const TopView& view, size_t columns, bool is_unicode) {
  constexpr double bytes_per_gib = static_cast<double>(GiB);
  const std::string figures =
      fmt::format("{:>6.2f} GiB/s, {:.1f} GiB so far ", view.read_bytes_per_s / bytes_per_gib,
                  static_cast<double>(view.read_bytes) / bytes_per_gib);
  Line line = labelled("read");
  line.push_back({figures});
  const size_t rest = columns - std::min(columns, top_label_columns + figures.size());
  line.push_back({history(view.read_history, rest, 0, is_unicode), Style::good});
  return line;
}

Line stall_line(const TopView& view, size_t columns, bool is_unicode) {
  const std::string figures = fmt::format("{:>6.1f} % ", 100 * view.stall_share);
  const Style style = view.stall_share > stall_share_high ? Style::warning : Style::good;
  Line line = labelled("stall");
  line.push_back({figures, style});
  const size_t rest = columns - std::min(columns, top_label_columns + figures.size());
  line.push_back({history(view.stall_history, rest, 1, is_unicode), style});
  return line;
}

Line faults_line(const TopView& view) {
  const double waited = view.touches.demand_per_s + view.touches.late_per_s;
  const double all = waited + view.touches.hidden_per_s;
  Line line = labelled("faults/s");
  line.push_back({fmt::format(" demand {:.0f}  late {:.0f}  tripwire {:.0f}  hidden {:.0f}",
                              view.touches.demand_per_s, view.touches.late_per_s,
                              view.touches.tripwire_per_s, view.touches.hidden_per_s)});
  if (all > 0) line.push_back({fmt::format(" ({:.0f} %)", 100 * view.touches.hidden_per_s / all)});
  return line;
}

Line memory_line(const HeldMemory& memory) {
  Line line = labelled("memory");
  line.push_back(
      {fmt::format(" {} blocks, {:.0f} MiB: written {:.0f}, of files {:.0f}, zeros {:.0f}",
                   memory.blocks, mebibytes(memory.size_bytes), mebibytes(memory.written_bytes),
                   mebibytes(memory.lazy_bytes), mebibytes(memory.zero_bytes))});
  return line;
}

std::vector<size_t> sorted(const TopView& view) {
  std::vector<size_t> order(view.rows.size());
  std::iota(order.begin(), order.end(), 0);
  const auto by = [&](auto value) {
    std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
      return value(view.rows[left]) > value(view.rows[right]);
    });
  };
  if (view.order == RowOrder::stall)
    by([](const TopRow& it) { return it.stall_share.value_or(0); });
  if (view.order == RowOrder::resident) {
    by([](const TopRow& it) { return it.residency.resident_bytes(); });
  }
  if (view.order == RowOrder::size) by([](const TopRow& it) { return it.residency.size_bytes; });
  return order;
}

Line row_line(const TopRow& row, bool is_at_cursor, size_t columns, const Glyphs& glyphs) {
  const Residency& residency = row.residency;
  const std::string stall = row.stall_share ? fmt::format("{:.1f}", 100 * *row.stall_share) : "-";
  const std::string figures = fmt::format(
      "{:<{}.{}} {:>7.0f} {:>4.0f} {:>4.0f} {:>6} ", residency.name, name_columns, name_columns,
      mebibytes(residency.size_bytes), percent(residency.resident_bytes(), residency.size_bytes),
      percent(residency.pinned_bytes, residency.size_bytes), stall);
  const size_t rest = columns - std::min(columns, figures.size());
  return {{figures, is_at_cursor ? Style::bright : Style::plain},
          {share_strip(residency, rest, glyphs)}};
}

void add_rows(std::vector<Line>& lines, const TopView& view, ScreenSize size, size_t lines_left,
              const Glyphs& glyphs) {
  if (view.rows.empty() || lines_left < 2) return;
  const std::string header = fmt::format("{:<{}} {:>7} {:>4} {:>4} {:>6} ", view.rows_are,
                                         name_columns, "MiB", "in%", "pin%", "stall%");
  const bool has_room = header.size() + legend_columns <= size.columns;
  lines.push_back(
      {{header + (has_room ? legend(glyphs) : "(h: what the signs mean)"), Style::bright}});
  --lines_left;
  const std::vector<size_t> order = sorted(view);
  // The engine's layer stays in sight.
  const bool follows = view.order == RowOrder::place && view.rows_are == "layer" && view.layers > 0;
  size_t first = 0;
  if (follows && order.size() > lines_left && view.layer >= lines_left / 2) {
    first = std::min<size_t>(view.layer - lines_left / 2, order.size() - lines_left);
  }
  for (size_t i = first; i < order.size() && i < first + lines_left; ++i) {
    const bool is_at_cursor = view.rows_are == "layer" && view.layers > 0 && order[i] == view.layer;
    lines.push_back(row_line(view.rows[order[i]], is_at_cursor, size.columns, glyphs));
  }
}

Line keys_line(const TopView& view, size_t columns) {
  const std::string keys =
      fmt::format("q quit  h help  space {}  s sort: {}  + - window",
                  view.is_paused ? "go on" : "pause", order_names[static_cast<size_t>(view.order)]);
  const std::string& text = view.message.empty() ? keys : view.message;
  return {{fmt::format("{:<{}.{}}", text, columns, columns), Style::title}};
}

/// Cuts UTF-8 text to so many characters. Each character here takes one column.
void cut(Line& line, size_t columns) {
  for (Text& text : line) {
    size_t end = 0;
    while (end < text.text.size() && columns > 0) {
      ++end;
      while (end < text.text.size() && (text.text[end] & 0xC0) == 0x80) ++end;
      --columns;
    }
    text.text.resize(end);
  }
}

}  // namespace

std::vector<Line> top_frame(const TopView& view, ScreenSize size, bool is_unicode,
                            bool is_snapshot) {
  const size_t columns = std::max(size.columns, columns_min);
  std::vector<Line> lines = {title_line(view, columns),
                             window_line(view, columns, is_unicode),
                             layer_line(view, columns, is_unicode),
                             read_line(view, columns, is_unicode),
                             stall_line(view, columns, is_unicode),
                             faults_line(view)};
  if (view.memory) lines.push_back(memory_line(*view.memory));
  lines.emplace_back();
  const Glyphs& glyphs = is_unicode ? unicode_glyphs : ascii_glyphs;
  const size_t below = is_snapshot ? 0 : 1;
  const size_t lines_left =
      size.lines > lines.size() + below ? size.lines - lines.size() - below : 0;
  if (view.shows_help) {
    for (const char* const line : help_lines) lines.push_back({{line}});
    lines.push_back({{"  " + legend(glyphs)}});
  } else {
    add_rows(lines, view, {columns, size.lines}, is_snapshot ? SIZE_MAX : lines_left, glyphs);
  }
  if (!is_snapshot) {
    lines.resize(std::max<size_t>(size.lines, 1) - 1);
    lines.push_back(keys_line(view, columns));
  }
  for (Line& line : lines) cut(line, size.columns);
  return lines;
}

}  // namespace weightpager::tools
