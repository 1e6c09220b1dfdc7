#include "tools/live/residency.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/live/live_process.h"

namespace weightpager::tools {
namespace {

using Json = control::Client::Json;

/// The states that a strip tells apart.
enum State : size_t { pinned, mapped, ready, reading, failed, absent, states };

const char* glyph(size_t state, const Glyphs& glyphs) {
  const std::array<const char*, states> all = {glyphs.pinned,  glyphs.mapped, glyphs.ready,
                                               glyphs.reading, glyphs.failed, glyphs.absent};
  return all[state];
}

State state_of(char letter) {
  switch (letter) {
    case 'M':
      return pinned;
    case 'm':
      return mapped;
    case 'y':
    case 'Y':
      return ready;
    case 'r':
    case 'R':
      return reading;
    case 'x':
    case 'X':
      return failed;
    default:
      return absent;
  }
}

Residency residency_of(const Json& row) {
  const auto bytes = [&](const char* key) { return row.at(key).get<uint64_t>(); };
  return {.name = row.at("name").get<std::string>(),
          .size_bytes = bytes("size_bytes"),
          .mapped_bytes = bytes("mapped_bytes"),
          .ready_bytes = bytes("ready_bytes"),
          .reading_bytes = bytes("reading_bytes"),
          .absent_bytes = bytes("absent_bytes"),
          .failed_bytes = bytes("failed_bytes"),
          .pinned_bytes = bytes("pinned_bytes"),
          .stall_ns = row.value("stall_ns", uint64_t{0}),
          .written_bytes = row.value("written_bytes", uint64_t{0}),
          .lazy_bytes = row.value("lazy_bytes", uint64_t{0}),
          .zero_bytes = row.value("zero_bytes", uint64_t{0}),
          .file = row.value("file", ""),
          .file_offset_bytes = row.value("file_offset_bytes", uint64_t{0}),
          .chunks = row.at("chunks").get<std::vector<std::pair<uint64_t, uint64_t>>>()};
}

/// Asks for one part of a list after the other until there is no more. `take` returns how many
/// elements a part had.
template <typename Take>
Status ask_all_parts(control::Client& client, size_t model, const char* by, Take take) {
  for (uint64_t first = 0;;) {
    Json request = request_of("residency");
    request["model"] = model;
    request["by"] = by;
    request["first"] = first;
    const auto answer = client.ask(request);
    if (!answer) return tl::make_unexpected(answer.error());
    const uint64_t count = take(*answer);
    first += count;
    if (count == 0 || first >= answer->at("total").get<uint64_t>()) return {};
  }
}

}  // namespace

const Glyphs ascii_glyphs = {"#", "P", "+", "~", ".", "!"};
const Glyphs unicode_glyphs = {"▓", "█", "▒", "░", "·", "!"};

void Residency::add(const Residency& other) {
  size_bytes += other.size_bytes;
  mapped_bytes += other.mapped_bytes;
  ready_bytes += other.ready_bytes;
  reading_bytes += other.reading_bytes;
  absent_bytes += other.absent_bytes;
  failed_bytes += other.failed_bytes;
  pinned_bytes += other.pinned_bytes;
  stall_ns += other.stall_ns;
  written_bytes += other.written_bytes;
  lazy_bytes += other.lazy_bytes;
  zero_bytes += other.zero_bytes;
}

const char* rows_of(const Json& model, const char* by) {
  return model.value("kind", "file") == "memory" ? "block" : by;
}

Result<std::vector<Residency>> ask_residency(control::Client& client, size_t model,
                                             const char* by) {
  std::vector<Residency> rows;
  const auto asked = ask_all_parts(client, model, by, [&](const Json& answer) {
    for (const Json& row : answer.at("rows")) rows.push_back(residency_of(row));
    return answer.at("rows").size();
  });
  if (!asked) return tl::make_unexpected(asked.error());
  return rows;
}

Result<std::string> ask_chunk_states(control::Client& client, size_t model) {
  std::string states;
  const auto asked = ask_all_parts(client, model, "chunk", [&](const Json& answer) {
    const auto part = answer.at("states").get<std::string>();
    states += part;
    return part.size();
  });
  if (!asked) return tl::make_unexpected(asked.error());
  return states;
}

std::string legend(const Glyphs& glyphs) {
  return fmt::format("{} mapped  {} mapped, pinned  {} ready  {} reading  {} absent  {} failed",
                     glyphs.mapped, glyphs.pinned, glyphs.ready, glyphs.reading, glyphs.absent,
                     glyphs.failed);
}

std::string share_strip(const Residency& residency, size_t columns, const Glyphs& glyphs) {
  const uint64_t pinned_bytes = std::min(residency.pinned_bytes, residency.mapped_bytes);
  const std::array<uint64_t, states> bytes = {
      pinned_bytes,           residency.mapped_bytes - pinned_bytes,
      residency.ready_bytes,  residency.reading_bytes,
      residency.failed_bytes, residency.absent_bytes};
  const uint64_t total = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  if (total == 0) return "";
  // Widths are rounded down, but a state that occurs has at least one column. The widest state gets
  // the columns that are left over, or gives those that are too many.
  std::array<size_t, states> widths{};
  for (size_t i = 0; i < states; ++i) {
    if (bytes[i] > 0) widths[i] = std::max<size_t>(bytes[i] * columns / total, 1);
  }
  size_t used = std::accumulate(widths.begin(), widths.end(), size_t{0});
  while (used != columns) {
    size_t& widest = *std::max_element(widths.begin(), widths.end());
    if (used < columns) {
      widest += columns - used;
      used = columns;
    } else {
      --widest;
      --used;
    }
  }
  std::string strip;
  for (size_t i = 0; i < states; ++i) {
    for (size_t column = 0; column < widths[i]; ++column) strip += glyph(i, glyphs);
  }
  return strip;
}

std::string states_of(const Residency& residency, std::string_view states) {
  std::string letters;
  for (const auto& [first, count] : residency.chunks) {
    if (first < states.size()) letters += states.substr(first, count);
  }
  return letters;
}

std::string chunk_strip(std::string_view letters, size_t columns, const Glyphs& glyphs) {
  std::string strip;
  if (letters.empty()) return strip;
  for (size_t column = 0; column < columns; ++column) {
    std::array<size_t, states> counts{};
    const size_t begin = column * letters.size() / columns;
    const size_t end = std::max((column + 1) * letters.size() / columns, begin + 1);
    for (size_t i = begin; i < end; ++i) ++counts[state_of(letters[i])];
    const auto most = std::max_element(counts.begin(), counts.end());
    strip += glyph(static_cast<size_t>(most - counts.begin()), glyphs);
  }
  return strip;
}

}  // namespace weightpager::tools
