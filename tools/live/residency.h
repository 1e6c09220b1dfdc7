// Asks a live pager where a model's bytes are, and shows the answer as a strip of characters.
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

/// A layer, tensor or block, or several of them.
struct Residency {
  std::string name;
  uint64_t size_bytes = 0;
  // Bytes by state; they add up to the size.
  uint64_t mapped_bytes = 0;
  uint64_t ready_bytes = 0;
  uint64_t reading_bytes = 0;
  uint64_t absent_bytes = 0;
  uint64_t failed_bytes = 0;
  uint64_t pinned_bytes = 0;  // of pinned chunks, resident or not
  uint64_t stall_ns = 0;      // only for layers
  // Of a block of the engine's own memory: what it holds, and the file that the engine read into
  // it.
  uint64_t written_bytes = 0;
  uint64_t lazy_bytes = 0;
  uint64_t zero_bytes = 0;
  std::string file;
  uint64_t file_offset_bytes = 0;
  /// Its chunks in the file: [first, count], in order.
  std::vector<std::pair<uint64_t, uint64_t>> chunks;

  bool is_block() const { return written_bytes + lazy_bytes + zero_bytes > 0; }
  uint64_t resident_bytes() const { return mapped_bytes + ready_bytes; }
  void add(const Residency& other);
};

/// What the rows of a model of `hello` are: "block" of the engine's own memory, else `by`, which is
/// "layer" or "tensor".
const char* rows_of(const control::Client::Json& model, const char* by);
/// Asks for rows until all of them are there. `by`: "layer", "tensor" or "block".
Result<std::vector<Residency>> ask_residency(control::Client& client, size_t model, const char* by);
/// One letter for each chunk; docs/reference/control.md lists the letters.
Result<std::string> ask_chunk_states(control::Client& client, size_t model);

/// The characters that stand for states in a strip.
struct Glyphs {
  const char* mapped;
  const char* pinned;  // mapped and pinned
  const char* ready;
  const char* reading;
  const char* absent;
  const char* failed;
};
extern const Glyphs ascii_glyphs;
extern const Glyphs unicode_glyphs;

/// The glyphs and what they mean, in one line.
std::string legend(const Glyphs& glyphs);

/// One state after the other, each as wide as its share. Every state that occurs has a column, as
/// long as there are enough columns.
std::string share_strip(const Residency& residency, size_t columns, const Glyphs& glyphs);

/// The chunks from the first to the last. A column stands for several chunks and shows the most
/// frequent state among them. If there are fewer chunks than columns, a chunk has several columns.
std::string chunk_strip(std::string_view states, size_t columns, const Glyphs& glyphs);

/// Takes the states of the chunks of `residency` out of `states`, which has all of the model's.
std::string states_of(const Residency& residency, std::string_view states);

}  // namespace weightpager::tools
