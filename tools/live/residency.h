// Where a model's bytes are, asked of a live pager, and as a strip of characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pager/base/result.h"
#include "pager/control/client.h"

namespace weightpager::tools {

/// A layer or tensor, or several of them.
struct Residency {
  std::string name;
  uint64_t size_bytes = 0;
  // By state; these add up to the size.
  uint64_t mapped_bytes = 0;
  uint64_t ready_bytes = 0;
  uint64_t reading_bytes = 0;
  uint64_t absent_bytes = 0;
  uint64_t failed_bytes = 0;
  uint64_t pinned_bytes = 0;  // meant to stay, resident or not
  uint64_t stall_ns = 0;      // of layers
  /// Where it lies in its file: [first, count], in order.
  std::vector<std::pair<uint64_t, uint64_t>> chunks;

  uint64_t resident_bytes() const { return mapped_bytes + ready_bytes; }
  void add(const Residency& other);
};

/// Asks until all rows are there; `by`: "layer" or "tensor".
Result<std::vector<Residency>> ask_residency(control::Client& client, size_t model, const char* by);
/// A letter for each chunk, as docs/reference/control.md has them.
Result<std::string> ask_chunk_states(control::Client& client, size_t model);

/// What stands for a state in a strip.
struct Glyphs {
  const char* mapped;
  const char* pinned;  // mapped, and meant to stay
  const char* ready;
  const char* reading;
  const char* absent;
  const char* failed;
};
extern const Glyphs ascii_glyphs;
extern const Glyphs unicode_glyphs;

/// The glyphs and what they mean, in one line.
std::string legend(const Glyphs& glyphs);

/// One state after the other, each as wide as its share. What is there at all has a column, as long
/// as there are columns.
std::string share_strip(const Residency& residency, size_t columns, const Glyphs& glyphs);

/// From the first chunk to the last: each column shows what most of its chunks are. With fewer
/// chunks than columns, each has several.
std::string chunk_strip(std::string_view states, size_t columns, const Glyphs& glyphs);

/// Of all the model's states those of what lies there.
std::string states_of(const Residency& residency, std::string_view states);

}  // namespace weightpager::tools
